#pragma once

#include <cstdint>
#include <vector>

#include "protocol.hpp"

// What coordinator and workers say to each other in a run with rings.
namespace cohort {

/// One worker's share in a round.
struct RoundMember {
    std::int32_t worker = 0;
    std::uint64_t lease = 0;   ///< 0: takes part without samples
    std::int64_t samples = 0;  ///< b_i
    template <class Io>
    void fields(Io& io) {
        io(worker, lease, samples);
    }
};

/// A round grant: fixed before its first bucket leaves. The update is applied by every member;
/// a tail that is not finite voids it for all. Without members there is no round, only what is
/// asked for afterwards (then worker i of all does part i, and nobody reports the round).
struct RoundOrder {
    std::uint64_t round = 0;
    double fraction = 0;
    double lr = 0;
    std::vector<RoundMember> members;  ///< in ring order
    bool evaluate = false;             ///< afterwards: member i of n does part i of n
    std::uint64_t evaluation = 0;
    SnapshotOrder snapshot;  ///< afterwards, by worker 0
    template <class Io>
    void fields(Io& io) {
        io(round, fraction, lr, members, evaluate, evaluation, snapshot);
    }
};

struct RoundMemberReport {
    std::int64_t samples = 0;
    double loss_sum = 0;
    std::int64_t correct = 0;
    bool finite = true;
    double compute_s = 0;
    double gradient_norm = 0;
    template <class Io>
    void fields(Io& io) {
        io(samples, loss_sum, correct, finite, compute_s, gradient_norm);
    }
};

struct RoundReport {
    std::uint64_t round = 0;
    std::int64_t version = 0;  ///< worker 0's after the round; a void round leaves it as it was
    std::vector<RoundMemberReport> members;  ///< in the order of the grant
    double exchange_s = 0;                   ///< worker 0's
    double exposed_s = 0;
    template <class Io>
    void fields(Io& io) {
        io(round, version, members, exchange_s, exposed_s);
    }
};

}  // namespace cohort
