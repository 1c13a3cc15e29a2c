#pragma once

#include <cstdint>
#include <string>

#include "cohort/sched/timing.hpp"

namespace cohort {

/// How a chooser forms its opinion.
struct ChooserOptions {
    std::string predictor = "auto";    ///< last, ewma, lstm, auto; simulations also: oracle
    std::string efficiency = "model";  ///< model, prior
    bool guard = true;                 ///< StalenessGuard
    std::string predictor_file;        ///< of `cohort predictor train`; empty: the shipped one
    std::string efficiency_file;       ///< of `cohort efficiency train`; empty: the shipped one
};

/// What a job is, apart from its cluster's load.
struct JobFacts {
    double parameters = 0;
    double parameter_bytes = 0;   ///< of a push
    double flops_per_sample = 0;  ///< forward and backward
    int servers = 0;              ///< 0: ring
    double learning_rate = 0;     ///< at the start
    double momentum = 0;
    SharedCapacity capacity;  ///< as far as it is known before the run
};

}  // namespace cohort
