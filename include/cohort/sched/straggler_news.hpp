#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "cohort/sched/stragglers.hpp"

namespace cohort {

/// What is told of stragglers, in logs and results: slowness that lasts, in pairs of a beginning
/// and an end.
///
/// The detector answers within two records, as choosers need it; where programs share processors,
/// it opens and closes many episodes of a few iterations. Therefore each worker has a count between
/// 0 and kLasting: a slow record of an open episode adds one, any other takes two away. At kLasting
/// the beginning is told, back at 0 the end. So a worker that is slow in more than two of three
/// iterations is told, after kLasting of them if it is in all; one that is slow now and then is
/// not; and no end is closer than kLasting / 2 iterations to its beginning. Pure; an add costs
/// O(1).
class StragglerNews {
public:
    /// As many iterations as the detector's longest window has: what is told rests on more records
    /// than any single decision of the detector.
    static constexpr int kLasting = 16;

    enum class Kind : std::uint8_t {
        kBegun,
        kEnded,  ///< it is as fast again
        kLeft    ///< it was slow until it was lost, or until the end of the run
    };
    struct Item {
        Kind kind = Kind::kBegun;
        /// The detector's episodes of this time as one: the first beginning, the newest end, all
        /// slow iterations, and the cause of the longest.
        StragglerEpisode episode;
    };
    /// Slowness that was too short to be told.
    struct Brief {
        std::int64_t episodes = 0;
        std::int64_t iterations = 0;
    };

    explicit StragglerNews(int workers) : workers_(static_cast<std::size_t>(workers)) {}

    /// The detector has looked at a record of this worker. @param open  its episode, if one is open
    void add(int worker, const std::optional<StragglerEpisode>& open);
    /// There is nothing more to come: the worker is lost, or the run ends.
    void left(int worker);
    /// Since the last call, in order.
    [[nodiscard]] std::vector<Item> take();
    [[nodiscard]] const Brief& brief() const noexcept { return brief_; }

private:
    struct Worker {
        int count = 0;
        bool told = false;
        std::optional<StragglerEpisode> closed;  ///< those that are over, as one
        std::optional<StragglerEpisode> open;
        std::int64_t longest = 0;  ///< iterations of the longest one in `closed`
        std::int64_t episodes = 0;
        std::int64_t records = 0;  ///< slow ones within them
    };
    static void close(Worker& one);
    void over(Worker& one, Kind kind);

    std::vector<Worker> workers_;
    std::vector<Item> news_;
    Brief brief_;
};

}  // namespace cohort
