// config/: the ground floor. What every process is set up with: results, units, settings, logging, memory
// plan. Everybody may include it; it includes nothing of tierfs.
#pragma once

#include <cerrno>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>

namespace tierfs {

/// What went wrong in words for a person, with the errno that a system call on the mount returns for it.
///
/// The message names the thing, says what is wrong and, where there is something to do, what to do.
/// It never contains a secret. Copyable, immutable in practice, no thread-safety needed.
struct Error {
    int code = EIO;  ///< an errno value, never 0
    std::string message;

    /// The same error seen from further away: "CONTEXT: message".
    [[nodiscard]] Error within(std::string_view context) const {
        return Error{code, std::string(context) + ": " + message};
    }
};

/// What can fail in normal running returns one of these; exceptions are for start-up only.
template <typename T>
using Result = tl::expected<T, Error>;

/// `return fail(ENOENT, "...");` from any function that returns a Result.
[[nodiscard]] inline tl::unexpected<Error> fail(int code, std::string message) {
    return tl::unexpected<Error>(Error{code, std::move(message)});
}

[[nodiscard]] inline tl::unexpected<Error> fail(Error error) {
    return tl::unexpected<Error>(std::move(error));
}

/// An Error for a failed system call: "WHAT: strerror(code)".
[[nodiscard]] Error system_error(int code, std::string_view what);

}  // namespace tierfs
