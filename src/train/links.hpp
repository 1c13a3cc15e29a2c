#pragma once

#include "cohort/comm/messenger.hpp"
#include "cohort/comm/operations.hpp"
#include "cohort/comm/rank_map.hpp"

namespace cohort {

/// What a role needs to talk to the others; all of it outlives the role.
struct Links {
    Messenger& messenger;
    OperationBoard& operations;
    const RankMap& map;
};

}  // namespace cohort
