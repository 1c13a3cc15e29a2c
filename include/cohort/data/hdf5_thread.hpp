#pragma once

#include <functional>
#include <future>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace cohort {

/// Priority of jobs that wait for the HDF5 thread.
enum class Hdf5Priority {
    kInput,      ///< training input, and jobs that a person waits for
    kBackground  ///< slices of checkpoints; one runs after at most a few inputs, never starves
};

/// The one thread of this process that calls HDF5: the library is not thread safe, so every call
/// is a job that runs here, one at a time, in order within its priority. HDF5's own error
/// printing is off; its text goes into the FileError. All objects share the thread. Those that read
/// or write through one must end before it.
class Hdf5Thread {
public:
    Hdf5Thread();
    Hdf5Thread(const Hdf5Thread&) = delete;
    Hdf5Thread& operator=(const Hdf5Thread&) = delete;
    /// The last object finishes all posted jobs, then ends the thread.
    ~Hdf5Thread();

    /// Queues `job`, returns at once. The future gives its result or rethrows its exception.
    template <class F>
    auto post(F job, Hdf5Priority priority = Hdf5Priority::kBackground)
        -> std::future<std::invoke_result_t<F&>> {
        using Result = std::invoke_result_t<F&>;
        auto task = std::make_shared<std::packaged_task<Result()>>(std::move(job));
        std::future<Result> result = task->get_future();
        enqueue([task] { (*task)(); }, priority);
        return result;
    }

    /// Runs `job` on the HDF5 thread, blocks until it is done, returns its result or rethrows its
    /// exception. Called from the HDF5 thread itself it runs `job` at once.
    template <class F>
    auto run(F&& job, Hdf5Priority priority = Hdf5Priority::kInput) -> std::invoke_result_t<F&> {
        if (is_current()) {
            return job();
        }
        return post([&job]() -> std::invoke_result_t<F&> { return job(); }, priority).get();
    }

    /// run() of a job that cleans up. Left out when there is no memory to queue it: HDF5 closes its
    /// files when the process ends.
    void clean_up(const std::function<void()>& job,
                  Hdf5Priority priority = Hdf5Priority::kInput) noexcept;

    /// True on the HDF5 thread.
    [[nodiscard]] bool is_current() const noexcept;

private:
    void enqueue(std::function<void()> job, Hdf5Priority priority);

    struct State;
    std::shared_ptr<State> state_;
};

/// The HDF5 library in use, e.g. "1.10.8 (parallel)". The one call into HDF5 that needs no
/// Hdf5Thread.
[[nodiscard]] std::string hdf5_version_text();

}  // namespace cohort
