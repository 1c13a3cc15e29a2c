#pragma once

#include "cohort/comm/membership.hpp"
#include "cohort/comm/messenger.hpp"
#include "cohort/comm/operations.hpp"
#include "cohort/comm/rank_map.hpp"

namespace cohort {

/// A role's means of communication with other ranks; every member outlives the role.
struct Links {
    Messenger& messenger;
    OperationBoard& operations;
    const RankMap& map;
    Membership* membership = nullptr;  ///< null: nobody is ever lost
};

}  // namespace cohort
