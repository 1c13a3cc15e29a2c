// A library to be preloaded: threads of the tests' programs start late and some of them dawdle, as
// they do on a processor that has more to do than it can. It takes no processor time, so many tests
// can run beside each other. tests/tools/run_loaded.py --late builds it and preloads it.
//
// A program takes part when its file lies below LATE_THREADS_BELOW. A tenth of all threads and a
// third of all processes start up to kLateMs late; a quarter of all threads sleep now and then, for
// up to kDawdleMs, when they come out of a wait or are about to take a lock.

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

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
thread_local Chance chance;

std::uint64_t draw(std::uint64_t below) {
    if (chance.state == 0) {
        timespec now{};
        clock_gettime(CLOCK_MONOTONIC, &now);
        chance.state = (static_cast<std::uint64_t>(now.tv_nsec) << 20U) ^
                       static_cast<std::uint64_t>(getpid()) ^
                       reinterpret_cast<std::uintptr_t>(&chance);
        chance.state |= 1U;
    }
    chance.state ^= chance.state << 13U;
    chance.state ^= chance.state >> 7U;
    chance.state ^= chance.state << 17U;
    return (chance.state >> 11U) % below;
}

void sleep_up_to(int milliseconds) {
    const auto us = draw(static_cast<std::uint64_t>(milliseconds) * 1000);
    timespec time{.tv_sec = static_cast<time_t>(us / 1'000'000),
                  .tv_nsec = static_cast<long>(us % 1'000'000) * 1000};
    nanosleep(&time, nullptr);
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
    takes_part = below != nullptr && length > 0 &&
                 std::string(program, static_cast<std::size_t>(length)).rfind(below, 0) == 0;
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
