// floor: fs
// What `tierfs trace` is told, and what it prints of it. Input: the answer to trace-take.
#include <algorithm>
#include <nlohmann/json.hpp>

#include "fs/observe/trace/trace_wire.hpp"
#include "fs/observe/trace_lines.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    using Form = TraceLineWriter::Form;
    const auto answer = nlohmann::json::parse(fuzz::text_of(data, size), nullptr, false);
    const auto read = read_trace_lines(answer);
    if (!read) {
        fuzz::require(read.error().code == EPROTO && !read.error().message.empty(),
                      "an error says what it is");
        return 0;
    }
    const auto one_line = [](const std::string& text) { return text.find('\n') == text.size() - 1; };
    TraceLineWriter columns(Form::columns, "/mnt"), json(Form::json, "/mnt"), order(Form::order, "/mnt");
    for (const auto& line : read->lines) {
        const auto shown = columns.line(line);
        fuzz::require(one_line(shown), "columns are one line");
        fuzz::require(std::none_of(shown.begin(), shown.end() - 1,
                                   [](unsigned char byte) { return byte < 0x20 || byte == 0x7f; }),
                      "nothing steers a terminal");
        const auto object = json.line(line);
        fuzz::require(one_line(object), "an object is one line");
        fuzz::require(nlohmann::json::parse(object, nullptr, false).is_object(), "an object is one");
        const auto path = order.line(line);
        fuzz::require(path.empty() || (one_line(path) && path == "/mnt/" + line.path + "\n"),
                      "a list has the paths as they are");
    }
    (void)columns.dropped(read->dropped);
    fuzz::require(
        nlohmann::json::parse(json.dropped(std::max<std::uint64_t>(read->dropped, 1)), nullptr, false)
            .is_object(),
        "a count is an object");
    return 0;
}
