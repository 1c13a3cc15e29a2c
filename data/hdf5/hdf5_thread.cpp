#include "cohort/data/hdf5_thread.hpp"

#include "cohort/core/error.hpp"

#include "data/hdf5/hdf5_handle.hpp"

#include <array>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <mutex>
#include <thread>

namespace cohort {

namespace {

/// How many input jobs may overtake a waiting background job before it gets its turn.
constexpr int kOvertakings = 8;

}  // namespace

struct Hdf5Thread::State {
    std::mutex mutex;
    std::condition_variable changed;
    std::array<std::deque<std::function<void()>>, 2> jobs;  ///< by Hdf5Priority
    int overtaken = 0;
    bool stopping = false;
    std::thread thread;

    std::deque<std::function<void()>>& of(Hdf5Priority priority) {
        return jobs[static_cast<std::size_t>(priority)];
    }

    /// The next job in turn, or nothing when stopping and all is done.
    std::function<void()> next() {
        std::unique_lock lock(mutex);
        auto& input = of(Hdf5Priority::kInput);
        auto& background = of(Hdf5Priority::kBackground);
        changed.wait(lock, [&] { return stopping || !input.empty() || !background.empty(); });
        if (input.empty() && background.empty()) {
            return {};
        }
        const bool overtake = !input.empty() && (background.empty() || overtaken < kOvertakings);
        overtaken = overtake && !background.empty() ? overtaken + 1 : 0;
        auto& queue = overtake ? input : background;
        std::function<void()> job = std::move(queue.front());
        queue.pop_front();
        return job;
    }

    void loop() {
        hdf5_silence_error_printing();
        while (const std::function<void()> job = next()) {
            job();
        }
    }
};

/// HDF5 is one per process whatever objects we make, so is the thread that calls it.
struct Hdf5Thread::Shared {
    std::mutex mutex;
    int users = 0;
    std::unique_ptr<State> state;

    static Shared& get() {
        static Shared shared;
        return shared;
    }
};

Hdf5Thread::Hdf5Thread() {
    Shared& shared = Shared::get();
    const std::lock_guard lock(shared.mutex);
    if (shared.users == 0) {
        shared.state = std::make_unique<State>();
        shared.state->thread = std::thread([state = shared.state.get()] { state->loop(); });
    }
    ++shared.users;
    state_ = shared.state.get();
}

Hdf5Thread::~Hdf5Thread() {
    Shared& shared = Shared::get();
    const std::lock_guard lock(shared.mutex);
    if (--shared.users > 0) {
        return;
    }
    {
        const std::lock_guard stop(state_->mutex);
        state_->stopping = true;
    }
    state_->changed.notify_one();
    state_->thread.join();
    shared.state.reset();
}

bool Hdf5Thread::is_current() const noexcept {
    return std::this_thread::get_id() == state_->thread.get_id();
}

void Hdf5Thread::enqueue(std::function<void()> job, Hdf5Priority priority) {
    {
        const std::lock_guard lock(state_->mutex);
        state_->of(priority).push_back(std::move(job));
    }
    state_->changed.notify_one();
}

}  // namespace cohort
