// floor: fs
// The control socket's lines in both directions, and the status for people. Input: a line.
#include <nlohmann/json.hpp>

#include "fs/control/control.hpp"
#include "fs/observe/status.hpp"
#include "tests/fuzz/fuzz.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
    using namespace tierfs;
    const auto line = fuzz::text_of(data, size);
    // The command comes back in the answer: it need not be UTF-8 that can be printed.
    const auto answer = answer_control_line(
        line, [](const std::string& command, const nlohmann::json&) -> Result<nlohmann::json> {
            if (command.size() % 2 == 0) return fail(EINVAL, "there is no command " + command);
            return nlohmann::json{{"command", command}};
        });
    fuzz::require(answer.ends_with('\n') && answer.find('\n') == answer.size() - 1, "an answer is one line");
    const auto own = nlohmann::json::parse(answer, nullptr, false);
    fuzz::require(own.is_object() && own.contains("ok"), "an answer is an object");
    (void)parse_control_reply(answer);
    fuzz::require(path_from_wire(path_to_wire(line)) == line, "a path of any bytes goes both ways");
    (void)path_from_wire(line);

    const auto reply = parse_control_reply(line);
    if (!reply) {
        fuzz::require(reply.error().code != 0, "an error has a code");
        return 0;
    }
    (void)reply->dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
    try {
        (void)status_text(*reply);
    } catch (const nlohmann::json::exception&) {  // the only one that `tierfs status` expects
    }
    return 0;
}
