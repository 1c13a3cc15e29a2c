#include "cohort/core/error.hpp"
#include "virtual_jobs.hpp"

namespace cohort {

std::unique_ptr<VirtualJob> make_ring_job(VirtualCluster& /*cluster*/, Learner& /*learner*/,
                                          JobSpec /*spec*/) {
    fail<UsageError>({.where = "--arch", .what = "no rings here", .expected = "servers"});
}

}  // namespace cohort
