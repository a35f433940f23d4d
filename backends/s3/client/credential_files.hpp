// The files that credentials for S3 come from.
#pragma once

#include <string>
#include <vector>

namespace tierfs::s3 {

/// One that each daemon reads at its start: https://docs.aws.amazon.com/sdkref/latest/guide/file-location.html
struct CredentialFile {
    std::string variable;  ///< of the environment, names it
    std::string path;      ///< absolute or as the variable has it; the file need not exist
    bool is_chosen;        ///< by the variable; else it lies in the user's home
};

/// By the environment of this process and the home of its user. Thread-safe beside nobody who sets variables.
std::vector<CredentialFile> credential_files();

}  // namespace tierfs::s3
