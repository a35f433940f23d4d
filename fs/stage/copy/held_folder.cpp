#include "fs/stage/copy/held_folder.hpp"

#include <fcntl.h>
#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <string_view>
#include <vector>

#include "config/base/json_text.hpp"

namespace tierfs::stage {

namespace {

constexpr unsigned kMostLinks = 40;  // as the kernel

/// A name to follow; or, without one, the end of a link, at which the owner of what it led to is looked at.
struct Step {
    std::string name;
    std::string link = {};
    uid_t owner = 0;
};

std::string read_link(int link) {
    std::array<char, PATH_MAX + 1> target{};
    const ssize_t length = ::readlinkat(link, "", target.data(), target.size() - 1);
    return length > 0 ? std::string(target.data(), static_cast<std::size_t>(length)) : std::string();
}

/// The last name lies on top.
void push_names(std::vector<Step>& steps, std::string_view path) {
    std::vector<std::string_view> names;
    while (!path.empty()) {
        const auto slash = path.find('/');
        if (slash != 0) names.push_back(path.substr(0, slash));
        if (slash == std::string_view::npos) break;
        path.remove_prefix(slash + 1);
    }
    for (auto name = names.rbegin(); name != names.rend(); ++name) steps.push_back({std::string(*name)});
}

class Walk {
  public:
    Walk(const std::string& path, bool make) : path_(path), make_(make) {}

    Result<FileDescriptor> run() {
        push_names(steps_, path_);
        if (auto begun = begin(); !begun) return fail(begun.error());
        while (!steps_.empty()) {
            const Step step = std::move(steps_.back());
            steps_.pop_back();
            auto done = step.name.empty() ? expect_owner(step) : follow(step.name);
            if (!done) return fail(done.error());
        }
        FileDescriptor folder(::openat(at_.get(), ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
        if (!folder) return refuse(errno);
        return folder;
    }

  private:
    [[nodiscard]] tl::unexpected<Error> refuse(int code) const {
        return fail(system_error(code, printable(path_)));
    }

    Result<void> begin() {
        at_.reset(::open("/", O_PATH | O_DIRECTORY | O_CLOEXEC));
        if (!at_) return refuse(errno);
        return {};
    }

    Result<void> follow(const std::string& name) {
        constexpr int kFlags = O_PATH | O_NOFOLLOW | O_CLOEXEC;
        // As a folder first: that has it mounted where it is to be mounted when it is used.
        FileDescriptor next(::openat(at_.get(), name.c_str(), kFlags | O_DIRECTORY));
        if (!next && errno == ENOTDIR) next.reset(::openat(at_.get(), name.c_str(), kFlags));
        // Nothing is made where a link of a user leads, before it is known whose that is.
        if (!next && errno == ENOENT && make_ && links_of_users_ == 0) {
            if (::mkdirat(at_.get(), name.c_str(), 0777) != 0 && errno != EEXIST) return refuse(errno);
            next.reset(::openat(at_.get(), name.c_str(), kFlags));
        }
        if (!next) return refuse(errno);
        struct stat status {};
        if (::fstat(next.get(), &status) != 0) return refuse(errno);
        if (S_ISDIR(status.st_mode)) {
            at_ = std::move(next);
            return {};
        }
        if (!S_ISLNK(status.st_mode)) return refuse(ENOTDIR);
        if (++links_ > kMostLinks) return refuse(ELOOP);
        const auto target = read_link(next.get());
        if (target.empty()) return refuse(ENOENT);
        if (::geteuid() == 0 && status.st_uid != 0) {
            steps_.push_back({"", name, status.st_uid});
            ++links_of_users_;
        }
        push_names(steps_, target);
        return target.front() == '/' ? begin() : Result<void>();
    }

    Result<void> expect_owner(const Step& step) {
        --links_of_users_;
        struct stat status {};
        if (::fstat(at_.get(), &status) != 0) return refuse(errno);
        if (status.st_uid == step.owner) return {};
        return fail(EACCES, printable(path_) + ": the symbolic link '" + printable(step.link) +
                                "' on the way belongs to user " + std::to_string(step.owner) +
                                ", and what it leads to does not: root does not follow it. Name the folder "
                                "itself");
    }

    const std::string& path_;
    bool make_;
    FileDescriptor at_;
    std::vector<Step> steps_;
    unsigned links_ = 0, links_of_users_ = 0;
};

}  // namespace

Result<HeldFolder> HeldFolder::open(const std::string& path, bool make) {
    std::error_code error;
    const auto absolute = std::filesystem::absolute(path, error);
    if (error)
        return fail(path.empty() ? ENOENT : error.value(), "'" + printable(path) + "': no such folder");
    auto fd = Walk(absolute.string(), make).run();
    if (!fd) return fail(fd.error());
    auto real = std::filesystem::read_symlink("/proc/self/fd/" + std::to_string(fd->get()), error);
    return HeldFolder{std::move(*fd), error ? absolute.lexically_normal().string() : real.string()};
}

}  // namespace tierfs::stage
