#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "cohort/core/clock.hpp"

namespace cohort {

/// A wait that has passed its limit.
struct Stall {
    std::string name;  ///< of the operation, e.g. "parameters"
    std::uint64_t sequence = 0;
    double seconds = 0;        ///< waited so far, since the last sign of progress
    std::vector<int> missing;  ///< world ranks it waits for, as far as they are known
    bool fatal = false;        ///< past twice the limit: the job must end
};

/// What it means that a wait takes longer than the limit.
enum class WaitLimit : std::uint8_t {
    kFatal,  ///< a peer owes something: a stall at the limit, fatal at twice the limit
    kWarn,   ///< long work of unknown length: a stall each time the limit passes, never fatal
    kNone    ///< idleness, as when there is no work: named and remembered, never a stall
};

/// Every wait of this rank, by name: what is being waited for now, and the last ones that ended.
/// Thread safe.
class OperationBoard {
public:
    static constexpr std::size_t kRemembered = 64;

    /// @param limit after which a wait is a stall (WaitLimit says how grave); must be > 0
    OperationBoard(Clock::Seconds limit, std::shared_ptr<const Clock> clock);

    /// After which a wait is a stall.
    [[nodiscard]] Clock::Seconds limit() const noexcept { return Clock::Seconds(limit_); }

    /// A wait from begin() to the end of this object's life. Movable.
    class Wait {
    public:
        /// There was progress: the limit counts from now. The duration on record still counts from
        /// begin(). From any thread while this object lives.
        void renew() noexcept {
            if (board_) {
                board_->renew(board_.get_deleter().id);
            }
        }

    private:
        friend class OperationBoard;
        struct End {
            std::uint64_t id;
            void operator()(OperationBoard* board) const noexcept { board->end(id); }
        };
        Wait(OperationBoard& board, std::uint64_t id) noexcept : board_(&board, End{id}) {}
        std::unique_ptr<OperationBoard, End> board_;  ///< not owned: is told of the end
    };

    /// @param missing  asked (by another thread, while the Wait lives) for the world ranks that are
    ///                 still missing; may be empty when nobody in particular is
    [[nodiscard]] Wait begin(std::string_view name, std::uint64_t sequence,
                             std::function<std::vector<int>()> missing = {},
                             WaitLimit limit = WaitLimit::kFatal);

    /// Waits that are stalls since the last call, each once. The communication thread asks some
    /// times a second.
    /// @param excluded  ranks nobody waits for: they are not named as missing, and a wait that only
    ///                  they hold up is never fatal; empty: there are none
    [[nodiscard]] std::vector<Stall> check(const std::function<bool(int)>& excluded = {});

    /// This process has not been running for `pause`, up to now: no running wait is to be counted
    /// for it.
    void forgive(Clock::Seconds pause);
    /// The limits of all running waits count from now.
    void restart();

    /// Running and remembered operations, oldest first, one line each: name, sequence, duration.
    [[nodiscard]] std::vector<std::string> last_operations() const;

private:
    void end(std::uint64_t id) noexcept;
    void renew(std::uint64_t id) noexcept;

    struct Running {
        std::string name;
        std::uint64_t sequence = 0;
        double begin = 0;
        double progress = 0;  ///< when the limit began to count
        std::function<std::vector<int>()> missing;
        WaitLimit limit = WaitLimit::kFatal;
        std::int64_t reported = 0;  ///< how often the limit had passed
    };
    struct Ended {
        std::string name;
        std::uint64_t sequence = 0;
        double seconds = 0;
    };
    [[nodiscard]] double now() const { return clock_->now().count(); }
    /// How many limits `wait` is past, of those that are to be reported.
    [[nodiscard]] std::int64_t passed(const Running& wait) const;

    double limit_;
    std::shared_ptr<const Clock> clock_;
    mutable std::mutex mutex_;
    std::uint64_t next_id_ = 1;
    std::map<std::uint64_t, Running> running_;  ///< ids ascend: oldest first
    std::deque<Ended> ended_;
};

}  // namespace cohort
