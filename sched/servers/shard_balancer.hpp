#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "sched/servers/shard_shares.hpp"

namespace cohort {

/// Decides when the servers' shards are resized, and to what, by how long each server was busy.
///
///  1. a window is a reference batch: its seconds, and those that each server was busy in it with
///     pushes, pulls and updates of its shard
///  2. a server's speed is its share over its mean busy time. Speeds that differ by chance are
///     equal: a distance d from the median, in logarithms, with standard error v becomes
///     d (1 - kSure^2 v^2 / d^2), or 0 when d < kSure v (Breiman's garrote, 1995, as for workers)
///  3. with g the time that the slowest server would save per window with capacity_shares() of
///  these
///     speeds, s its standard error, c what a move costs and L how long the speeds are expected to
///     stay (kLasts times as long as they have): shards move when g - kConfidence s - c / L is
///     above kLeastGain of a window
///  4. A server's time is not in proportion to its share: each message takes some time, a network
///     lets some bytes pass at once. Through the times at the shares before the last move and now
///     goes a line, where it rises by kFlattest to kSteepest times what the proportion would, and
///     beyond chance. Moves that follow each other need twice as many windows each time
///  5. A server's time may be hidden behind computing: a move after which windows have not become
///  shorter by kKept of what was promised, beyond
///     chance, is undone, and for kRest windows, twice as many each time, nothing moves
/// So shares follow measurements and cannot swing. Pure.
class ShardBalancer {
public:
    static constexpr double kSure = 4;           ///< standard errors beyond chance
    static constexpr double kConfidence = 1.64;  ///< one-sided, 95 %
    static constexpr double kLasts = 2;          ///< as for plans, see AdaptivePolicy
    /// Of a window. Every worker waits while shards move, and a forecast of less is not better than
    /// the model of a server's time.
    static constexpr double kLeastGain = 0.03;
    static constexpr double kKept = 0.25;       ///< of a promised gain
    static constexpr double kFlattest = 0.25;   ///< see 4
    static constexpr double kSteepest = 4;      ///< see 4
    static constexpr std::size_t kFew = 8;      ///< windows before anything is decided
    static constexpr std::size_t kMemory = 32;  ///< newest windows that count
    static constexpr std::int64_t kRest = 64;   ///< windows

    struct Resize {
        std::vector<double> shares;
        std::string why;  ///< "server 2 is 3.1x slower: 0.125 -> 0.045 of the parameters for it"
    };

    /// @param server_nodes, worker_nodes  node of each  @param shares  at the start, of each server
    ShardBalancer(std::vector<int> server_nodes, std::vector<int> worker_nodes,
                  std::vector<double> shares);

    /// Training went on until now.
    /// @param reference_batches  done  @param busy_s  seconds that each server was busy, since some
    /// moment that is always the same  @return a window is complete: decide() may have changed
    bool went(double now_s, double reference_batches, std::span<const double> busy_s);
    /// Another plan is in force, or training stood still: what was measured says nothing more.
    void restart();
    /// Whether to resize now; does nothing to what is known.
    [[nodiscard]] std::optional<Resize> decide() const;
    /// Shards have these shares now. @param stood_s  seconds that workers stood still for it
    void moved(const Resize& resize, double stood_s);
    /// The shares that suit the measured speeds; servers that are not measured are as fast as the
    /// others.
    [[nodiscard]] std::vector<double> suited() const;

    [[nodiscard]] const std::vector<double>& shares() const noexcept { return shares_; }
    /// By server: seconds for the pushes, pulls and updates of a reference batch if it had all of
    /// the parameters, by its present share; by the one before the last move where the present one
    /// is new, or below half of kLeastShare; 0: not measured.
    [[nodiscard]] std::vector<double> measured_whole_s() const;

private:
    struct Window {
        double seconds = 0;
        std::vector<double> busy_s;
    };
    /// A mean over windows, with its standard error.
    struct Mean {
        double value = 0;
        double error = 0;
    };
    /// A move that has not proved itself.
    struct Trial {
        std::vector<double> before;  ///< shares
        Mean window_s;               ///< seconds of a window before it
        double promised_s = 0;       ///< gain
    };

    /// A server's busy time at a share.
    struct Point {
        double share = 0;
        Mean busy_s;
    };
    /// Moves so far.
    struct Past {
        double cost_s = 0;      ///< of the last one
        std::int64_t rest = 0;  ///< windows in which nothing moves
        int undone = 0;         ///< one after the other
        int moves = 0;          ///< that followed each other
    };
    /// What is expected of another division.
    struct Outlook {
        std::vector<double> shares;
        double slowest_s = 0;  ///< busy time of the slowest server
    };

    template <class Get>
    [[nodiscard]] Mean mean_of(const Get& get) const;
    [[nodiscard]] Mean window_s() const;
    [[nodiscard]] Mean busy_s(std::size_t server) const;
    [[nodiscard]] std::vector<ServerSpeed> speeds() const;
    [[nodiscard]] double slope(std::size_t server, double whole_s) const;
    [[nodiscard]] Outlook best(const std::vector<ServerSpeed>& now) const;
    [[nodiscard]] std::size_t needed() const noexcept;
    [[nodiscard]] bool disappointed() const;
    [[nodiscard]] std::optional<Resize> gainful() const;
    [[nodiscard]] std::string why(const std::vector<ServerSpeed>& now, std::size_t slowest,
                                  const std::vector<double>& then) const;

    std::vector<int> server_nodes_;
    std::vector<int> worker_nodes_;
    std::vector<double> shares_;
    std::deque<Window> windows_;   ///< newest last
    std::int64_t age_ = 0;         ///< windows since shares or plan changed
    std::optional<Window> since_;  ///< when the window in progress began; busy_s as given
    double batches_ = 0;           ///< then
    std::optional<Trial> trial_;
    std::vector<Point> before_;  ///< by server: at the shares before the last move
    Past past_;
};

}  // namespace cohort
