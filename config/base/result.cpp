#include "config/base/result.hpp"

#include <system_error>

namespace tierfs {

Error system_error(int code, std::string_view what) {
    return Error{code, std::string(what) + ": " + std::generic_category().message(code)};
}

}  // namespace tierfs
