// Lines of a reply's head, as libcurl hands them over.
#pragma once

#include <string_view>

#include "backends/http/request.hpp"

namespace tierfs::http {

/// Takes one line, its end included, into `response`: a status line ("HTTP/...") starts anew, since what came
/// before was a 1xx; "Name: value" is added with the name in lower case and blanks around both removed; all
/// else is left out. A status that is no number is 0. Pure.
void take_header_line(Response& response, std::string_view line);

}  // namespace tierfs::http
