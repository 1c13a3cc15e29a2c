#include "core/system/unforked_file.hpp"

#include <fcntl.h>
#include <pthread.h>
#include <sys/file.h>

#include <mutex>
#include <vector>

namespace cohort {
namespace {

/// The files of this kind that this process has open. Never destroyed: threads may still run at
/// exit.
struct OpenFiles {
    OpenFiles();

    std::mutex mutex;
    std::vector<int> numbers;
    FileDescriptor nothing{::open("/dev/null", O_RDWR | O_CLOEXEC)};
};

OpenFiles& open_files() {
    static OpenFiles& files = *new OpenFiles;
    return files;
}

void before_fork() {
    open_files().mutex.lock();
}

void after_fork() {
    open_files().mutex.unlock();
}

/// In the forked process. Numbers stay in use, since their owners there may still close them.
void after_fork_in_child() {
    for (const int number : open_files().numbers) {
        static_cast<void>(::dup3(open_files().nothing.get(), number, O_CLOEXEC));
    }
    after_fork();
}

OpenFiles::OpenFiles() {
    static_cast<void>(pthread_atfork(before_fork, after_fork, after_fork_in_child));
}

}  // namespace

UnforkedFile::UnforkedFile(const std::function<FileDescriptor()>& open) {
    const std::lock_guard lock(open_files().mutex);
    file_ = open();
    if (file_.valid()) {
        open_files().numbers.push_back(file_.get());
    }
}

UnforkedFile::~UnforkedFile() {
    if (file_.valid()) {
        const std::lock_guard lock(open_files().mutex);
        std::erase(open_files().numbers, file_.get());
        static_cast<void>(::flock(file_.get(), LOCK_UN));  // a new process may still share it
        file_ = FileDescriptor();
    }
}

}  // namespace cohort
