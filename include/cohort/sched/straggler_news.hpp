#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cohort/sched/stragglers.hpp"

namespace cohort {

/// Reports of stragglers in logs and results: slowness that lasts, as pairs of a beginning and an
/// end.
///
/// The detector answers within two records, as choosers need it; where programs share processors,
/// it opens and closes many episodes of a few iterations. Therefore each worker has a count between
/// 0 and kLasting: a slow record of an open episode adds one, any other record subtracts two. The
/// beginning is reported when the count reaches kLasting, the end when it is back at 0. So a worker
/// that is slow in more than two of three iterations is reported, after kLasting iterations if it
/// is slow in all; a worker that is slow now and then is not reported; and an end is at least
/// kLasting / 2 iterations after its beginning. Pure; an add costs O(1).
class StragglerNews {
public:
    /// The detector's longest window, in iterations: a report rests on more records than any single
    /// decision of the detector.
    static constexpr int kLasting = 16;

    enum class Kind : std::uint8_t {
        kBegun,
        kEnded,  ///< the worker is fast again
        kLeft    ///< the worker was slow until it was lost, or until the end of the run
    };
    struct Item {
        Kind kind = Kind::kBegun;
        /// The detector's episodes of this time as one: the first beginning, the newest end, all
        /// slow iterations, and the cause of the longest.
        StragglerEpisode episode;
    };
    /// Slowness that was too short to be reported.
    struct Brief {
        std::int64_t episodes = 0;
        std::int64_t iterations = 0;
    };

    explicit StragglerNews(int workers) : workers_(static_cast<std::size_t>(workers)) {}

    /// The detector has processed a record of this worker. @param open  the worker's episode, if
    /// one is open
    void add(int worker, const std::optional<StragglerEpisode>& open);
    /// No more records follow: the worker is lost, or the run ends.
    void left(int worker);
    /// Reports since the last call, in order.
    [[nodiscard]] std::vector<Item> take();
    [[nodiscard]] const Brief& brief() const noexcept { return brief_; }

private:
    struct Worker {
        int count = 0;
        bool told = false;
        std::optional<StragglerEpisode> closed;  ///< closed episodes, merged into one
        std::optional<StragglerEpisode> open;
        std::int64_t longest = 0;  ///< iterations of the longest episode in `closed`
        std::int64_t episodes = 0;
        std::int64_t records = 0;  ///< slow records within `closed`
    };
    static void close(Worker& one);
    void over(Worker& one, Kind kind);

    std::vector<Worker> workers_;
    std::vector<Item> news_;
    Brief brief_;
};

}  // namespace cohort
