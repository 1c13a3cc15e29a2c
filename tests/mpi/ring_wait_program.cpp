// One round in which a rank comes late, for ring_wait_test.py:
//   mpirun -n N ring_wait_program ALGORITHM LATE_RANK SECONDS [node of each rank ...]
// Every other rank prints the share of a core that it used while it waited.
#include <signal.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <thread>
#include <vector>

#include "cohort/core/clock.hpp"
#include "comm/allreduce/all_reduce.hpp"
#include "core/system/process_usage.hpp"

namespace {

using namespace cohort;

void run(World& world, const AllReduceOptions& options, int late, double seconds) {
    std::vector<int> members(static_cast<std::size_t>(world.size()));
    std::iota(members.begin(), members.end(), 0);
    const auto ring = make_all_reduce(world, members, 100000, options);
    static_cast<void>(ring->begin(41));
    ring->finish({});
    static_cast<void>(ring->wait());
    static_cast<void>(ring->begin(42));
    if (world.rank() == late) {
        std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    }
    const SteadyClock clock;
    const double cpu = process_cpu_seconds();
    const Clock::Seconds start = clock.now();
    ring->finish({});
    static_cast<void>(ring->wait());
    if (world.rank() != late) {
        // Lines of standard output may be mixed with those of other ranks, a line of standard error
        // is one write.
        std::fprintf(stderr, "rank %d core_share %.4f\n", world.rank(),
                     (process_cpu_seconds() - cpu) / (clock.now() - start).count());
    }
}

}  // namespace

int main(int argc, char** argv) {
    ::signal(SIGPIPE, SIG_IGN);
    if (argc < 4) {
        std::fprintf(stderr, "usage: %s ALGORITHM LATE_RANK SECONDS [NODE ...]\n", argv[0]);
        return 2;
    }
    try {
        const double seconds = std::atof(argv[3]);
        World world({.stall_limit_s = seconds * 0.6});
        AllReduceOptions options{.algorithm = parse_all_reduce(argv[1]), .bucket_bytes = 65536};
        for (int i = 4; i < argc; ++i) {
            options.nodes.push_back(std::atoi(argv[i]));
        }
        run(world, options, std::atoi(argv[2]), seconds);
        world.finalize();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
