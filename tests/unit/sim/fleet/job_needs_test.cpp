#include "sim/fleet/job_needs.hpp"

#include <gtest/gtest.h>

#include "sched/servers/shard_shares.hpp"
#include "support/sched/plan_for.hpp"

namespace cohort {
namespace {

TEST(JobNeeds, Explore) {
    for (const char* name : {"8gpu-10g", "8gpu-100g"}) {
        const ClusterProfile profile = load_profile(name);
        for (const char* work : {"resnet20", "vgg16", "mobilenet2"}) {
            for (int servers : {1, 2, 4, 8}) {
                for (int batch : {32, 128}) {
                    for (int wn : {1, 2, 8}) {
                        JobSpec spec;
                        spec.setting.batch = batch;
                        spec.workload = profile.workload(work);
                        for (int i = 0; i < 8; ++i) {
                            spec.worker_nodes.push_back(i % wn);
                        }
                        ServersOfJob where{.nodes = {}, .shares = equal_shares(servers)};
                        for (int i = 0; i < servers; ++i) {
                            where.nodes.push_back(wn == 8 ? i : wn + i);
                        }
                        double mib[2];
                        double cores[2];
                        double pace[2];
                        int k = 0;
                        for (const char* mode : {"ssgd", "asgd"}) {
                            const JobNeeds n =
                                needs_of(spec, profile, 16, where,
                                         test::plan_for(mode, Architecture::kServers, 8));
                            double push = 0;
                            for (const auto& w : n.placed.demand.workers) {
                                push += w.iterations_s;
                            }
                            pace[k] = n.samples_s;
                            cores[k] = 100 * n.placed.demand.server_cores / servers / profile.cores;
                            mib[k++] = push * n.placed.demand.push_bytes / servers / 1048576;
                        }
                        std::printf(
                            "%s %s servers %d batch %d hosts %d: %.1f -> %.1f samples/s, add %.2f "
                            "%% %.1f MiB/s (of %.1f)\n",
                            name, work, servers, batch, wn, pace[0], pace[1], cores[1] - cores[0],
                            mib[1] - mib[0], mib[0]);
                    }
                }
            }
        }
    }
}

}  // namespace
}  // namespace cohort
