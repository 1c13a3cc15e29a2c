#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/core/words.hpp"
#include "records/run/run_log.hpp"

namespace cohort {

/// A worker as a view of the run shows it.
struct WorkerView {
    enum class State : std::uint8_t {
        kComputing,
        kWaiting,  ///< it waits for others for more than half of its time
        kSlow,     ///< it is a straggler
        kLost
    };
    int worker = 0;
    State state = State::kComputing;
    std::string_view cause;   ///< why it is slow; empty: it is not
    double own_s = kUnknown;  ///< its own seconds per --batch samples, without waiting
    double speed = kUnknown;  ///< share of the fastest live worker's speed, 0..1; 0: lost
    double waits = kUnknown;  ///< share of its time that it waits for others, 0..1
    double lag = kUnknown;    ///< of its last push, reference batches
    std::int64_t batch = 0;   ///< samples of its last mini-batch; 0: not known
};
template <>
inline constexpr auto kWords<WorkerView::State> =
    std::to_array<std::string_view>({"computing", "waiting", "slow", "lost"});

/// What happened to modes and workers.
struct ChangeView {
    double train_s = 0;  ///< time of training
    std::string text;
};

/// All that `cohort top` and the page live.html show of a run; they are its two writers.
struct RunView {
    std::string name;  ///< folder of the run
    std::string model;
    std::string setting;       ///< "servers, mode adaptive (ssgd)"
    std::string life;          ///< "running", "starting", "done", ...
    std::string note;          ///< how it ended, or what is in doubt; empty: nothing to say
    bool over = false;         ///< nothing will change any more
    std::int64_t samples = 0;  ///< applied
    std::int64_t budget = 0;   ///< samples; 0: not known
    double train_s = 0;
    double samples_per_s = kUnknown;
    std::string scores;  ///< "loss 0.4366  accuracy 84.27 %"; empty: not known
    std::string test;    ///< of the last evaluation; empty: there was none
    double lr = kUnknown;
    int live = 0;              ///< workers
    std::int64_t pending = 0;  ///< pushes that wait for others
    std::vector<WorkerView> workers;
    std::vector<ChangeView> changes;  ///< the newest first

    [[nodiscard]] double share_done() const noexcept;  ///< 0..1
    /// "0:42" until the budget is reached, at the present speed; "-": not known.
    [[nodiscard]] std::string eta() const;
};

/// Changes that a view keeps.
inline constexpr std::size_t kMostChanges = 8;

/// The workers that `rows` lines have room for, by number; when they are too few for all, the
/// slowest, slowest first, and one line less.
[[nodiscard]] std::vector<WorkerView> shown_workers(const RunView& view, std::size_t rows);
/// "and 12 more workers, none slower than these"; empty: all are shown.
[[nodiscard]] std::string others_text(const RunView& view, const std::vector<WorkerView>& shown);

/// "84 %", "163 ms" or "1.63 s", "1.88"; "-" for what is not known.
[[nodiscard]] std::string share_text(double share);
[[nodiscard]] std::string own_time_text(double seconds);
[[nodiscard]] std::string lag_text(double lag);

/// Makes the view of a run from the records of its metrics.jsonl.
class RunViewer final : public RunLogVisitor {
public:
    /// @param name  folder of the run
    explicit RunViewer(const std::string& name) { view_.name = name; }

    [[nodiscard]] const RunView& view() const noexcept { return view_; }
    /// What else is known than the records tell. @param over  the run has ended
    void set_life(std::string life, std::string note, bool over);

    void on_start(const RunHeader& start) override;
    void on_train(const TrainLine& window) override;
    void on_evaluation(const RunEvaluation& evaluation) override;
    void on_change(const SwitchReport& change) override;
    void on_straggler(const StragglerEpisode& slow, bool over) override;
    void on_rank(const RankChange& change) override;
    void on_dropped(const DroppedBatch& batch) override;
    void on_failure(const RunFailure& failure) override;
    void on_summary(const RunSummary& summary) override;

private:
    void add_change(double train_s, std::string text);
    void set_mode(const std::string& mode);

    RunView view_;
    std::string arch_;
    int regroupings_ = 0;  ///< in a row, of which the newest change tells
};

}  // namespace cohort
