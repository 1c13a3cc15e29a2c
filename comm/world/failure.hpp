#pragma once

#include <string>

#include "cohort/core/error.hpp"

namespace cohort {

/// Why a job ends, and which rank says so.
struct Failure {
    ExitCode code = ExitCode::kPeer;
    std::string reason;
    int origin = 0;
};

}  // namespace cohort
