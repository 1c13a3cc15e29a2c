#pragma once

#include "cohort/comm/operations.hpp"
#include "comm/world/collective_context.hpp"
#include "comm/world/membership_control.hpp"
#include "core/system/launch_env.hpp"

namespace cohort {

/// The parts of a world on one rank, in the order in which they build on each other.
struct WorldParts {
    explicit WorldParts(const WorldOptions& with);

    const WorldOptions options;
    const LaunchEnv env = read_launch_env();
    OperationBoard board;
    Ports ports;
    Network network;
    CommandQueue commands{network.bells, board};
    ProgressLoop progress{network, commands};
    CutOff cut_off;
    JobEnd job_end{network, commands, board, cut_off};
    Agreement agreement{network, commands, board};
    MembershipControl membership{network, commands, progress, cut_off, job_end, agreement};
    CollectiveContext collectives{network, commands, progress, board};
};

}  // namespace cohort
