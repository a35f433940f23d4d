#include "fs/cli/environment.hpp"

#include <unistd.h>

namespace tierfs {

std::map<std::string, std::string> process_environment() {
    std::map<std::string, std::string> variables;
    for (char** entry = environ; entry != nullptr && *entry != nullptr; ++entry) {
        const std::string text = *entry;
        const auto equals = text.find('=');
        if (equals != std::string::npos) variables[text.substr(0, equals)] = text.substr(equals + 1);
    }
    return variables;
}

}  // namespace tierfs
