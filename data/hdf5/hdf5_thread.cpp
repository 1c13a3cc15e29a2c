#include "cohort/data/hdf5_thread.hpp"

#include "cohort/core/error.hpp"

#include "data/hdf5/hdf5_handle.hpp"

#include <H5public.h>
#include <fmt/format.h>

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

/// HDF5 is one per process whatever objects we make, so is the thread that calls it.
struct Shared {
    std::mutex mutex;  ///< held while the thread starts and ends: there are never two
    std::weak_ptr<void> state;
};

Shared& shared() {
    static Shared instance;
    return instance;
}

}  // namespace

struct Hdf5Thread::State {
    std::mutex mutex;
    std::condition_variable changed;
    std::array<std::deque<std::function<void()>>, 2> jobs;  ///< by Hdf5Priority
    int overtaken = 0;
    bool stopping = false;
    std::thread thread{[this] { loop(); }};  ///< the last member: uses the others

    State() = default;
    State(const State&) = delete;
    State& operator=(const State&) = delete;
    ~State() {
        {
            const std::lock_guard lock(mutex);
            stopping = true;
        }
        changed.notify_one();
        thread.join();
    }

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

Hdf5Thread::Hdf5Thread() {
    const std::lock_guard lock(shared().mutex);
    state_ = std::static_pointer_cast<State>(shared().state.lock());
    if (!state_) {
        state_ = std::make_shared<State>();
        shared().state = state_;
    }
}

Hdf5Thread::~Hdf5Thread() {
    const std::lock_guard lock(shared().mutex);
    state_.reset();
}

void Hdf5Thread::clean_up(const std::function<void()>& job, Hdf5Priority priority) noexcept {
    try {
        run(job, priority);
    } catch (const std::exception&) {
        return;
    }
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

std::string hdf5_version_text() {
    unsigned major = 0;
    unsigned minor = 0;
    unsigned release = 0;
    if (H5get_libversion(&major, &minor, &release) < 0) {
        fail<FileError>({.where = "HDF5", .what = "the version is not known"});
    }
#ifdef H5_HAVE_PARALLEL
    constexpr const char* kFlavour = "parallel";
#else
    constexpr const char* kFlavour = "serial";
#endif
    return fmt::format("{}.{}.{} ({})", major, minor, release, kFlavour);
}

}  // namespace cohort
