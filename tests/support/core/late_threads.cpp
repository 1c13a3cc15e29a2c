// A library to be preloaded: threads of the tests' programs start late and some of them dawdle, as
// they do on a processor that has more to do than it can do. Sleeping takes no processor time, so
// many tests can run beside each other. tests/tools/run_loaded.py --late builds and preloads it.
//
// A program takes part when its file lies below the folder in the environment's variable
// LATE_THREADS_BELOW. Mutexes and conditions count, other locks and waits do not. A tenth of all
// threads and a third of all processes start up to kLateMs late; a quarter of all threads sleep now
// and then, for up to kDawdleMs, when they come out of a wait or are about to take a lock.

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <ctime>
#include <string>

namespace {

constexpr int kLateMs = 400;
constexpr int kDawdleMs = 12;
constexpr unsigned kDawdleOneIn = 300;  // waits and locks of a thread that dawdles

bool takes_part = false;

struct Chance {
    std::uint64_t state = 0;
    bool dawdles = false;
};
// In the thread's own block from the start: nothing is allocated inside of a lock.
__attribute__((tls_model("initial-exec"))) thread_local Chance chance;

/// The next number of the generator splitmix64 (Steele, Lea and Flood, 2014).
std::uint64_t draw() {
    chance.state += 0x9E3779B97F4A7C15U;
    std::uint64_t mixed = chance.state;
    mixed = (mixed ^ (mixed >> 30U)) * 0xBF58476D1CE4E5B9U;
    mixed = (mixed ^ (mixed >> 27U)) * 0x94D049BB133111EBU;
    return mixed ^ (mixed >> 31U);
}

std::uint64_t draw(std::uint64_t below) {
    if (chance.state == 0) {
        timespec now{};
        clock_gettime(CLOCK_MONOTONIC, &now);
        chance.state = (static_cast<std::uint64_t>(now.tv_nsec) << 32U) ^
                       static_cast<std::uint64_t>(getpid()) ^
                       reinterpret_cast<std::uintptr_t>(&chance);
    }
    return draw() % below;
}

void sleep_up_to(int milliseconds) {
    const auto us = draw(static_cast<std::uint64_t>(milliseconds) * 1000);
    timespec time{.tv_sec = static_cast<time_t>(us / 1'000'000),
                  .tv_nsec = static_cast<long>(us % 1'000'000) * 1000};
    const int error = errno;  // functions for locks leave it as it is
    nanosleep(&time, nullptr);
    errno = error;
}

void dawdle() {
    if (takes_part && chance.dawdles && draw(kDawdleOneIn) == 0) {
        sleep_up_to(kDawdleMs);
    }
}

template <class Function>
Function next(const char* name, const char* version = nullptr) {
    void* found = version != nullptr ? dlvsym(RTLD_NEXT, name, version) : nullptr;
    return reinterpret_cast<Function>(found != nullptr ? found : dlsym(RTLD_NEXT, name));
}

struct Start {
    void* (*function)(void*);
    void* argument;
};

void* start_late(void* pointer) {
    const Start start = *static_cast<Start*>(pointer);
    delete static_cast<Start*>(pointer);
    chance.dawdles = draw(4) == 0;
    if (draw(10) == 0) {
        sleep_up_to(kLateMs);
    }
    return start.function(start.argument);
}

__attribute__((constructor)) void begin() {
    const char* below = std::getenv("LATE_THREADS_BELOW");
    char program[4096];
    const ssize_t length = readlink("/proc/self/exe", program, sizeof(program));
    takes_part =
        below != nullptr && length > 0 &&
        std::string(program, static_cast<std::size_t>(length)).rfind(std::string(below) + "/", 0) ==
            0;
    if (takes_part && draw(3) == 0) {
        sleep_up_to(kLateMs);
    }
}

}  // namespace

extern "C" {

int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*function)(void*),
                   void* argument) {
    static const auto real =
        next<int (*)(pthread_t*, const pthread_attr_t*, void* (*)(void*), void*)>("pthread_create");
    if (!takes_part) {
        return real(thread, attributes, function, argument);
    }
    auto* start = new Start{function, argument};
    const int error = real(thread, attributes, start_late, start);
    if (error != 0) {
        delete start;
    }
    return error;
}

int pthread_mutex_lock(pthread_mutex_t* mutex) {
    static const auto real = next<int (*)(pthread_mutex_t*)>("pthread_mutex_lock");
    dawdle();
    return real(mutex);
}

int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
    static const auto real =
        next<int (*)(pthread_cond_t*, pthread_mutex_t*)>("pthread_cond_wait", "GLIBC_2.3.2");
    const int error = real(condition, mutex);
    dawdle();
    return error;
}

int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
    static const auto real =
        next<int (*)(pthread_cond_t*, pthread_mutex_t*, clockid_t, const timespec*)>(
            "pthread_cond_clockwait");
    const int error = real(condition, mutex, clock, until);
    dawdle();
    return error;
}

int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* until) {
    static const auto real = next<int (*)(pthread_cond_t*, pthread_mutex_t*, const timespec*)>(
        "pthread_cond_timedwait", "GLIBC_2.3.2");
    const int error = real(condition, mutex, until);
    dawdle();
    return error;
}

}  // extern "C"
