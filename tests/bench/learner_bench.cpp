// What the learner of a virtual run costs: samples per second of a synchronous and an asynchronous
// run of eight workers, samples per core second of the engine, and the share of the threads' time
// that the engine had. Time in which other programs had the cores does not count for the share.
//
//     learner_bench DATA [MODEL] [THREADS] [SECONDS]
#include <fmt/format.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

#include "sim/learner/learner.hpp"

namespace cohort {
namespace {

constexpr int kWorkers = 8;
constexpr std::int64_t kBatch = 64;
constexpr double kLr = 0.01;

/// Seconds that this process's threads have waited for a core so far.
double run_delay_s() {
    double sum = 0;
    for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
        double ran = 0;
        double waited = 0;
        std::ifstream(task.path() / "schedstat") >> ran >> waited;
        sum += 1e-9 * waited;
    }
    return sum;
}

class Run {
public:
    Run(const LearnerOptions& options, double seconds)
        : learner_(make_learner(options)), seconds_(seconds) {}

    /// One update per round of all workers.
    void synchronous() {
        UpdateOrder update{.version = ++version_, .fraction = 1, .learning_rate = kLr};
        std::vector<Learner::WorkId> works;
        for (int worker = 0; worker < kWorkers; ++worker) {
            works.push_back(start(worker, 0));
            update.terms.push_back({.push = {.worker = worker}, .coefficient = 1.0 / kWorkers});
        }
        for (const Learner::WorkId work : works) {
            (void)learner_->outcome(work);
        }
        learner_->apply(update, works);
    }
    /// One update per worker in turn; the others compute on.
    void asynchronous() {
        if (works_.empty()) {
            for (int worker = 0; worker < kWorkers; ++worker) {
                works_.push_back(start(worker, 0));
            }
        }
        for (int worker = 0; worker < kWorkers; ++worker) {
            auto& work = works_[static_cast<std::size_t>(worker)];
            (void)learner_->outcome(work);
            learner_->apply({.version = ++version_,
                             .fraction = 1.0 / kWorkers,
                             .learning_rate = kLr,
                             .terms = {{.push = {.worker = worker}, .coefficient = 1}}},
                            std::span(&work, 1));
            work = start(worker, 1 - 1.0 / kWorkers);
        }
    }
    void measure(const char* name, int threads, const std::function<void()>& round) {
        for (int i = 0; i < 3; ++i) {
            round();
        }
        const auto begin = std::chrono::steady_clock::now();
        const std::int64_t samples = learner_->samples_computed();
        const double core_s = learner_->engine_core_s();
        const double delay_s = run_delay_s();
        std::chrono::duration<double> took{};
        do {
            round();
            took = std::chrono::steady_clock::now() - begin;
        } while (took.count() < seconds_);
        const auto computed = static_cast<double>(learner_->samples_computed() - samples);
        const double engine = learner_->engine_core_s() - core_s;
        const double could = took.count() * threads - (run_delay_s() - delay_s);
        fmt::print("{:>12}: {:6.0f} samples/s, {:6.0f} per core second, engine {:.1f} %\n", name,
                   computed / took.count(), computed / engine, 100 * engine / could);
    }

private:
    Learner::WorkId start(int worker, double lag) {
        position_ = (position_ + kBatch) % (4096 - kBatch);
        return learner_->start({.worker = worker,
                                .slice = {.epoch = 0, .position = position_, .count = kBatch},
                                .parameters = learner_->release(worker, lag, kLr, false)});
    }

    std::unique_ptr<Learner> learner_;
    double seconds_;
    std::vector<Learner::WorkId> works_;
    std::int64_t version_ = 0;
    std::int64_t position_ = 0;
};

}  // namespace
}  // namespace cohort

int main(int argc, char** argv) {
    if (argc < 2) {
        fmt::print("learner_bench DATA [MODEL] [THREADS] [SECONDS]\n");
        return 2;
    }
    cohort::LearnerOptions options{.data = argv[1],
                                   .network = {.model = argc > 2 ? argv[2] : "smallcnn"}};
    options.threads = argc > 3 ? std::atoi(argv[3]) : 1;
    cohort::Run run(options, argc > 4 ? std::atof(argv[4]) : 2);
    run.measure("synchronous", options.threads, [&] { run.synchronous(); });
    run.measure("asynchronous", options.threads, [&] { run.asynchronous(); });
    return 0;
}
