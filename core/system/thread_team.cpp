#include "cohort/core/thread_team.hpp"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <exception>
#include <stdexcept>
#include <system_error>
#include <thread>
#include <vector>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

/// Tells the processor that this is a waiting loop.
void pause_briefly() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

// Between two regions of a step there are some microseconds: a short spin covers them. Longer waits
// sleep. There is no yield in between: on a busy core it would give a whole time slice to another
// process at every region, whereas a sleeper is woken ahead of those that compute.
template <class T>
void wait_while_equal(std::atomic<T>& value, T old) {
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::microseconds(20);
    while (value.load(std::memory_order_acquire) == old) {
        if (std::chrono::steady_clock::now() >= deadline) {
            value.wait(old, std::memory_order_acquire);
            return;
        }
        pause_briefly();
    }
}

/// A number that is unique among all threads; a std::thread::id is used again once its thread has
/// ended.
std::uint64_t this_thread_serial() {
    static std::atomic<std::uint64_t> last{0};
    thread_local const std::uint64_t serial = ++last;
    return serial;
}

/// Exclusive use of a team. Errors: std::logic_error when the team is in use.
class Claim {
public:
    explicit Claim(std::atomic<bool>& busy) : busy_(busy) {
        if (busy_.exchange(true, std::memory_order_acquire)) {
            throw std::logic_error("a thread team is used while it runs; give every user its own");
        }
    }
    Claim(const Claim&) = delete;
    Claim& operator=(const Claim&) = delete;
    ~Claim() { busy_.store(false, std::memory_order_release); }

private:
    std::atomic<bool>& busy_;
};

}  // namespace

struct ThreadTeam::State {
    int size = 1;
    std::function<void()> on_start;
    std::atomic<bool> busy{false};
    std::atomic<std::uint64_t> caller{this_thread_serial()};
    const std::function<void(int)>* work = nullptr;
    std::atomic<unsigned> round{0};
    std::atomic<int> running{0};  ///< members whose work of this round is not done
    /// Per member: the last round whose work a thread has taken.
    std::unique_ptr<std::atomic<unsigned>[]> taken;
    std::atomic<bool> stop{false};
    std::vector<std::exception_ptr> errors;
    std::vector<std::thread> threads;

    /// Needs a claim unless this thread is the caller already.
    void adopt_caller() {
        if (caller.load(std::memory_order_relaxed) != this_thread_serial()) {
            if (on_start) {
                on_start();
            }
            caller.store(this_thread_serial(), std::memory_order_relaxed);
        }
    }

    /// Runs a member's work of round `now` unless another thread has taken it.
    void run_member(int member, unsigned now) noexcept {
        unsigned before = now - 1;
        if (!taken[static_cast<std::size_t>(member)].compare_exchange_strong(
                before, now, std::memory_order_acq_rel)) {
            return;
        }
        try {
            (*work)(member);
        } catch (...) {
            errors[static_cast<std::size_t>(member)] = std::current_exception();
        }
        if (running.fetch_sub(1, std::memory_order_acq_rel) == 1) {
            running.notify_one();
        }
    }

    void stop_and_join() noexcept {
        stop.store(true, std::memory_order_release);
        round.fetch_add(1, std::memory_order_acq_rel);
        round.notify_all();
        for (std::thread& thread : threads) {
            thread.join();
        }
    }

    void serve(int member) {
        if (on_start) {
            on_start();
        }
        unsigned seen = 0;
        while (true) {
            wait_while_equal(round, seen);
            seen = round.load(std::memory_order_acquire);  // the caller may be rounds ahead
            if (stop.load(std::memory_order_acquire)) {
                return;
            }
            run_member(member, seen);
        }
    }
};

ThreadTeam::ThreadTeam(int size, std::function<void()> on_start)
    : state_(std::make_unique<State>()) {
    if (size < 1 || size > kMaxThreads) {
        fail<UsageError>({.where = "threads",
                          .what = "not a usable number of threads",
                          .expected = "1 to " + std::to_string(kMaxThreads),
                          .got = std::to_string(size)});
    }
    state_->size = size;
    state_->on_start = std::move(on_start);
    state_->errors.resize(static_cast<std::size_t>(size));
    state_->taken = std::make_unique<std::atomic<unsigned>[]>(static_cast<std::size_t>(size));
    state_->threads.reserve(static_cast<std::size_t>(size) - 1);
    if (state_->on_start) {
        state_->on_start();
    }
    try {
        for (int member = 1; member < size; ++member) {
            state_->threads.emplace_back([state = state_.get(), member] { state->serve(member); });
        }
    } catch (const std::system_error& error) {
        state_->stop_and_join();
        fail<DeviceError>({.where = "threads",
                           .what = "a thread could not be started: " + error.code().message(),
                           .expected = std::to_string(size) + " with the calling one",
                           .got = std::to_string(state_->threads.size() + 1),
                           .hint = "fewer threads, or higher limits (ulimit -u, ulimit -v)"});
    } catch (...) {
        state_->stop_and_join();
        throw;
    }
}

ThreadTeam::~ThreadTeam() {
    state_->stop_and_join();
}

int ThreadTeam::size() const noexcept {
    return state_->size;
}

void ThreadTeam::adopt_caller() {
    if (state_->caller.load(std::memory_order_relaxed) != this_thread_serial()) {
        const Claim claim(state_->busy);
        state_->adopt_caller();
    }
}

void ThreadTeam::run(const std::function<void(int)>& work) {
    State& state = *state_;
    const Claim claim(state.busy);
    state.adopt_caller();
    state.work = &work;
    state.running.store(state.size, std::memory_order_release);
    const unsigned now = state.round.fetch_add(1, std::memory_order_acq_rel) + 1;
    if (state.size > 1) {
        state.round.notify_all();
    }
    // The caller does the work that no member has taken meanwhile: on busy cores a woken thread may
    // be a time slice away, and then a small region would cost milliseconds.
    for (int member = 0; member < state.size; ++member) {
        state.run_member(member, now);
    }
    for (int left = state.running.load(std::memory_order_acquire); left != 0;
         left = state.running.load(std::memory_order_acquire)) {
        wait_while_equal(state.running, left);
    }
    state.work = nullptr;
    for (std::exception_ptr& error : state.errors) {
        if (error) {
            const std::exception_ptr first = error;
            for (std::exception_ptr& other : state.errors) {
                other = nullptr;
            }
            std::rethrow_exception(first);
        }
    }
}

Part part_of(long long count, int member, int size) noexcept {
    return {count * member / size, count * (member + 1) / size};
}

}  // namespace cohort
