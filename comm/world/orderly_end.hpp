#pragma once

#include "comm/world/comm_thread.hpp"

namespace cohort {

/// How a job ends well, see World::finalize. Collective over the members.
void end_orderly(WorldParts& parts, CommThread& thread);

}  // namespace cohort
