// How ranks agree on who is left: the steps of one loss, and random schedules of deaths, silences
// and delays.
#include "comm/world/succession/succession.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <random>

namespace cohort {
namespace {

using namespace std::chrono_literals;
using Instant = Succession::Instant;

constexpr Instant kStart(100s);
constexpr Succession::Seconds kPatience(2);
constexpr std::uint64_t kSchedules = 100000;
constexpr int kMostSteps = 10000;  // a hundred seconds

/// Ranks whose notes arrive in order between two ranks, each after a time of its own.
class Cluster {
public:
    Cluster(int ranks, std::uint64_t seed)
        : random_(seed), arrives_(ranks, std::vector<Instant>(ranks)) {
        for (int rank = 0; rank < ranks; ++rank) {
            ranks_.push_back({Succession(rank, ranks, kPatience)});
        }
    }

    struct Rank {
        Succession succession;
        bool dead = false;
        Instant frozen_until{};
        std::map<int, Instant> told_of{};  ///< deaths: when this rank notices them
    };
    struct Travelling {
        Instant at;
        int from = 0;
        int to = 0;
        SuccessionNote note;
    };

    Rank& rank(int index) { return ranks_[static_cast<std::size_t>(index)]; }
    [[nodiscard]] int size() const { return static_cast<int>(ranks_.size()); }
    [[nodiscard]] double drawn(double low, double high) {
        return std::uniform_real_distribution(low, high)(random_);
    }

    /// Every other rank notices it within a tenth of a second, on several hosts some by others
    /// only.
    void kill(int index, bool one_host) {
        rank(index).dead = true;
        for (int other = 0; other < size(); ++other) {
            if (one_host || other == index + 1 || (index + 1 == size() && other == 0) ||
                drawn(0, 1) < 0.5) {
                rank(other).told_of[index] = now_ + after(drawn(0, 0.1));
            }
        }
    }
    void freeze(int index, double seconds) { rank(index).frozen_until = now_ + after(seconds); }

    void step() {
        now_ += 10ms;
        for (int index = 0; index < size(); ++index) {
            Rank& one = rank(index);
            if (one.dead || one.frozen_until > now_) {
                continue;
            }
            read(index);
            for (const auto& [other, at] : one.told_of) {
                if (at <= now_ && !one.succession.active()) {
                    one.succession.begin({other}, "a rank has died", now_);
                } else if (at <= now_) {
                    one.succession.lost(other, now_);
                }
            }
            one.succession.look(now_);
            send(index);
        }
    }
    [[nodiscard]] Instant now() const { return now_; }
    [[nodiscard]] bool decided() const {
        return std::ranges::any_of(
            ranks_, [](const Rank& one) { return one.succession.decision().has_value(); });
    }
    /// Every rank that lives has made a decision, or knows that it is left out.
    [[nodiscard]] bool settled() const {
        return std::ranges::all_of(ranks_, [](const Rank& one) {
            return one.dead || one.succession.decision() || one.succession.left_out();
        });
    }

private:
    static Instant::duration after(double seconds) {
        return std::chrono::duration_cast<Instant::duration>(Succession::Seconds(seconds));
    }
    void send(int from) {
        for (auto& [to, note] : rank(from).succession.take()) {
            Instant& last = arrives_[static_cast<std::size_t>(from)][static_cast<std::size_t>(to)];
            last = std::max(last, now_ + after(drawn(0, 0.05)));
            travelling_.push_back({last, from, to, std::move(note)});
        }
    }
    void read(int to) {
        std::vector<Travelling> left;
        for (Travelling& one : travelling_) {
            if (one.to == to && one.at <= now_) {
                rank(to).succession.heard(one.from, one.note, now_);
            } else {
                left.push_back(std::move(one));
            }
        }
        travelling_ = std::move(left);
    }

    std::mt19937_64 random_;
    Instant now_ = kStart;
    std::vector<Rank> ranks_;
    std::vector<std::vector<Instant>> arrives_;  ///< by sender and receiver: the last note
    std::vector<Travelling> travelling_;
};

TEST(Succession, TheLowestRankThatIsLeftDecidesOnceAllHaveToldTheSame) {
    Succession first(1, 4, kPatience);
    Succession other(3, 4, kPatience);
    first.begin({0}, "rank 0 has died", kStart);
    EXPECT_EQ(first.missing(), (std::vector<int>{2, 3}));
    EXPECT_FALSE(first.decision());
    other.heard(1, first.take().back().note, kStart);  // it learns of the loss from rank 1
    EXPECT_TRUE(other.active());
    EXPECT_EQ(other.reason(), "rank 0 has died");
    first.heard(3, other.take().front().note, kStart);
    EXPECT_EQ(first.missing(), std::vector<int>{2});

    first.lost(2, kStart);  // instead of an answer
    EXPECT_FALSE(first.decision()) << "rank 3 has not told that rank 2 is lost";
    other.heard(1, first.take().back().note, kStart);
    first.heard(3, other.take().front().note, kStart);
    ASSERT_TRUE(first.decision());
    EXPECT_EQ(*first.decision(), (std::vector<int>{1, 3}));
    other.heard(1, first.take().back().note, kStart);
    EXPECT_EQ(other.decision(), first.decision());
}

TEST(Succession, ARankThatSaysNothingIsLostAndLeavesWhenItReadsThat) {
    Succession first(0, 3, kPatience);
    Succession silent(2, 3, kPatience);
    first.begin({1}, "rank 1 has died", kStart);
    first.look(kStart + 1s);
    EXPECT_FALSE(first.decision());
    first.look(kStart + 3s);
    ASSERT_TRUE(first.decision());
    EXPECT_EQ(*first.decision(), std::vector<int>{0});
    for (const Succession::Outgoing& one : first.take()) {
        if (one.to == 2) {
            silent.heard(0, one.note, kStart + 4s);
        }
    }
    EXPECT_TRUE(silent.left_out());
    EXPECT_FALSE(silent.decision());
}

TEST(Succession, ALeaderThatSaysNothingIsFollowedByTheNextOne) {
    Succession second(1, 4, kPatience);
    second.begin({2}, "rank 2 has died", kStart);
    second.look(kStart + 3s);
    EXPECT_FALSE(second.decision()) << "the leader may still wait for others";
    second.look(kStart + 5s);
    SuccessionNote third = second.take().back().note;
    EXPECT_THAT(third.silent, ::testing::ElementsAre(0));
    second.heard(3, third, kStart + 5s);  // which says the same
    ASSERT_TRUE(second.decision());
    EXPECT_EQ(*second.decision(), (std::vector<int>{1, 3}));
}

/// Of two halves that do not hear each other one goes on.
TEST(Succession, HalfOfThoseThatMayLiveGoOnWithTheLowestOfThem) {
    for (const int own : {0, 3}) {
        const int other = own == 0 ? 2 : 4;
        Succession leader(own, 5, kPatience);
        leader.begin({1}, "rank 1 has died", kStart);
        SuccessionNote note;
        for (int second = 0; second < 20 && !leader.decision() && !leader.left_out(); ++second) {
            const auto now = kStart + std::chrono::seconds(second);
            leader.look(now);
            for (const Succession::Outgoing& one : leader.take()) {
                note = one.to == other ? one.note : note;
            }
            leader.heard(other, note, now);
        }
        EXPECT_EQ(leader.decision().has_value(), own == 0);
        EXPECT_EQ(leader.left_out(), own == 3) << "the others may go on";
    }
}

/// Of all decisions of a schedule, those that every rank in them has made: they become worlds.
std::set<std::vector<int>> worlds(Cluster& cluster) {
    std::set<std::vector<int>> found;
    for (int index = 0; index < cluster.size(); ++index) {
        const auto& decision = cluster.rank(index).succession.decision();
        if (decision && std::ranges::all_of(*decision, [&](int member) {
                return cluster.rank(member).succession.decision() == decision;
            })) {
            found.insert(*decision);
        }
    }
    return found;
}

TEST(Succession, RandomDeathsLeaveOneWorldOfAllThatLive) {
    int second_deaths = 0;
    int too_late = 0;
    for (std::uint64_t seed = 0; seed < kSchedules; ++seed) {
        SCOPED_TRACE(seed);
        const int ranks = 2 + static_cast<int>(seed % 7);
        Cluster cluster(ranks, seed);
        cluster.kill(static_cast<int>(cluster.drawn(0, ranks)), true);
        const int second = static_cast<int>(cluster.drawn(0, ranks));
        const Instant at = kStart + std::chrono::milliseconds(seed % 2 == 0 ? seed % 150 : 3600000);
        for (int step = 0; step < kMostSteps && !cluster.settled(); ++step) {
            if (cluster.now() > at && !cluster.decided() && !cluster.rank(second).dead) {
                cluster.kill(second, true);
                ++second_deaths;
            }
            cluster.step();
        }
        ASSERT_TRUE(cluster.settled());
        std::vector<int> living;
        bool expects_the_dead = false;  // it died after it had told its list
        for (int index = 0; index < ranks; ++index) {
            const Cluster::Rank& one = cluster.rank(index);
            const auto& decision = one.succession.decision();
            if (!one.dead) {
                living.push_back(index);
                ASSERT_FALSE(one.succession.left_out());
                expects_the_dead =
                    expects_the_dead || std::ranges::any_of(*decision, [&](int member) {
                        return cluster.rank(member).dead;
                    });
            }
        }
        if (expects_the_dead) {
            ++too_late;
            ASSERT_TRUE(worlds(cluster).empty());
        } else if (!living.empty()) {
            ASSERT_EQ(worlds(cluster), std::set<std::vector<int>>{living});
        }
    }
    EXPECT_GT(second_deaths, 300);
    EXPECT_LT(too_late, second_deaths / 2);
}

TEST(Succession, DeathsAndSilencesAtAnyTimeNeverMakeTwoWorlds) {
    std::uint64_t without_world = 0;
    for (std::uint64_t seed = 0; seed < kSchedules; ++seed) {
        SCOPED_TRACE(seed);
        const int ranks = 3 + static_cast<int>(seed % 6);
        Cluster cluster(ranks, seed);
        cluster.kill(static_cast<int>(cluster.drawn(0, ranks)), false);
        struct Fault {
            int step = 0;
            int rank = 0;
            double frozen_s = 0;  ///< 0: killed
        };
        std::vector<Fault> faults(static_cast<std::size_t>(cluster.drawn(0, 4)));
        for (Fault& fault : faults) {
            fault = {.step = static_cast<int>(cluster.drawn(0, 60)),
                     .rank = static_cast<int>(cluster.drawn(0, ranks)),
                     .frozen_s = std::max(0.0, cluster.drawn(-8, 8))};
        }
        for (int step = 0; step < 60 || (step < kMostSteps && !cluster.settled()); ++step) {
            for (const Fault& fault : faults) {
                if (fault.step == step && fault.frozen_s > 0) {
                    cluster.freeze(fault.rank, fault.frozen_s);
                } else if (fault.step == step && !cluster.rank(fault.rank).dead) {
                    cluster.kill(fault.rank, false);
                }
            }
            cluster.step();
        }
        ASSERT_TRUE(cluster.settled());
        ASSERT_LE(worlds(cluster).size(), 1U);
        without_world += worlds(cluster).empty() ? 1 : 0;
    }
    EXPECT_LT(without_world, kSchedules / 2);
}

}  // namespace
}  // namespace cohort
