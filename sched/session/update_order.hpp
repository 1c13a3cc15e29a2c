#pragma once

#include <cstdint>
#include <tuple>
#include <vector>

#include "cohort/sched/plan.hpp"

namespace cohort {

/// A push's part in the sum of an update.
struct UpdateTerm {
    PushId push;
    std::uint64_t lease = 0;
    double coefficient = 0;    ///< in the weighted sum: b_p w_p / sum of b, clipped
    std::int64_t version = 0;  ///< of the parameters that the push was computed on

    auto fields() { return std::tie(push, lease, coefficient, version); }
};

/// An update that has been decided: servers apply it, real and virtual ones, and the records of the
/// run tell of it. Members of rings have applied theirs already: for their records, terms have only
/// pushes and leases.
struct UpdateOrder {
    std::int64_t version = 0;  ///< after the update
    double fraction = 0;       ///< f, in reference batches
    double learning_rate = 0;
    Work work = Work::kGradient;
    double delay_compensation = 0;  ///< lambda; 0: none
    bool ask_norm = false;          ///< for the squared norm of its mean gradient
    std::vector<UpdateTerm> terms;  ///< in the order of leases, not of arrival: the sum has the
                                    ///< same bits whatever the timing
    std::uint32_t epoch = 0;        ///< of the first term's lease
    // Over all terms:
    std::int64_t samples = 0;
    double loss_sum = 0;
    double correct = 0;
    double gradient_norm = 0;  ///< mean

    auto fields() {
        return std::tie(version, fraction, learning_rate, work, delay_compensation, ask_norm, terms,
                        epoch, samples, loss_sum, correct, gradient_norm);
    }
};

}  // namespace cohort
