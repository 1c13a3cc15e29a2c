#include "report/sweep/child_pool.hpp"

#include <fcntl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <thread>

#include "cohort/core/error.hpp"
#include "cohort/core/output.hpp"

namespace cohort {
namespace {

constexpr int kNice = 10;
constexpr Clock::Seconds kLook{0.005};   ///< between checks of the children
constexpr Clock::Seconds kPatience{10};  ///< after TERM
constexpr int kNotStarted = 127;         ///< as shells do

/// The child's part: only calls that are safe after fork() in a program with threads.
[[noreturn]] void become(const char* program, char* const* arguments, int input, int output,
                         pid_t parent) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) {  // the parent ended before the line above
        _exit(kNotStarted);
    }
    sigset_t none;
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    for (const int ignored : {SIGPIPE, SIGXFSZ}) {
        signal(ignored, SIG_DFL);
    }
    if (nice(kNice) == -1) {
        // The child then keeps its priority.
    }
    dup2(input, STDIN_FILENO);
    dup2(output, STDOUT_FILENO);
    dup2(output, STDERR_FILENO);
    execv(program, arguments);
    _exit(kNotStarted);
}

/// Opens an empty log, in blocking mode as a child expects it.
int open_log(const std::string& path) {
    const int file = open_in_place_or_fail(path, O_WRONLY | O_CREAT);
    if (ftruncate(file, 0) != 0 || fcntl(file, F_SETFL, 0) != 0) {
        const int error = errno;
        close(file);
        fail_errno(path, "cannot be emptied", error);
    }
    return file;
}

}  // namespace

ChildPool::~ChildPool() {
    stop();
}

void ChildPool::start(std::size_t tag, const std::vector<std::string>& arguments,
                      const std::string& log) {
    std::vector<std::string> words = program_;
    words.insert(words.end(), arguments.begin(), arguments.end());
    std::vector<char*> pointers;
    for (std::string& word : words) {
        pointers.push_back(word.data());
    }
    pointers.push_back(nullptr);
    const int output = open_log(log);
    const int input = open("/dev/null", O_RDONLY | O_CLOEXEC);
    if (input < 0) {
        const std::string reason = errno_text(errno);
        close(output);
        fail<FileError>({.where = "/dev/null", .what = "cannot be opened", .got = reason});
    }
    const pid_t parent = getpid();
    const pid_t child = fork();
    if (child == 0) {
        become(program_.front().c_str(), pointers.data(), input, output, parent);
    }
    const int error = errno;
    close(input);
    close(output);
    if (child < 0) {
        fail<DeviceError>({.where = "processes",
                           .what = "one more cannot be started",
                           .got = errno_text(error),
                           .hint = "fewer --jobs"});
    }
    children_.push_back({.process = child, .tag = tag});
}

std::optional<ChildPool::Ended> ChildPool::take_ended() {
    for (auto child = children_.begin(); child != children_.end(); ++child) {
        int status = 0;
        const pid_t ended = waitpid(child->process, &status, WNOHANG);
        if (ended == 0 || (ended < 0 && errno == EINTR)) {
            continue;
        }
        constexpr int kSignalled = 128;
        const int code = ended < 0           ? kNotStarted
                         : WIFEXITED(status) ? WEXITSTATUS(status)
                                             : kSignalled + WTERMSIG(status);
        const Ended result{.tag = child->tag, .code = code};
        children_.erase(child);
        return result;
    }
    return std::nullopt;
}

std::optional<ChildPool::Ended> ChildPool::wait(Clock::Seconds most) {
    const SteadyClock clock;
    const Clock::Seconds end = clock.now() + most;
    while (!children_.empty()) {
        if (const std::optional<Ended> ended = take_ended()) {
            return ended;
        }
        if (clock.now() >= end) {
            break;
        }
        std::this_thread::sleep_for(kLook);
    }
    return std::nullopt;
}

void ChildPool::stop() {
    for (const int number : {SIGTERM, SIGKILL}) {
        for (const Child& child : children_) {
            kill(child.process, number);
        }
        const SteadyClock clock;
        const Clock::Seconds end = clock.now() + kPatience;
        while (!children_.empty() && clock.now() < end) {
            (void)wait(end - clock.now());
        }
    }
}

}  // namespace cohort
