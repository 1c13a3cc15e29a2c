// Times of the ring exchange over sizes, on the ranks that mpirun starts:
//   mpirun -n 4 all_reduce_bench [ring|ordered|mpi|auto] [most bytes] [node of each rank ...]
// A line per size from rank 0: bytes, median and least seconds of a round (after a barrier, on the
// rank where it took longest), bus bandwidth 2 (n-1)/n * bytes / median, CPU seconds of rank 0 per
// round.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <numeric>
#include <string>
#include <vector>

#include "cohort/core/clock.hpp"
#include "cohort/core/statistics.hpp"
#include "comm/allreduce/all_reduce.hpp"
#include "core/system/process_usage.hpp"

namespace {

using namespace cohort;

/// @return the longest of the members' `seconds`
double round_of(AllReduce& ring, std::uint64_t round, double seconds) {
    static_cast<void>(ring.begin(round));
    ring.finish(pack_summary(seconds));
    return std::ranges::max(unpack_summaries<double>(ring.wait()).value());
}

void print(const World& world, const AllReduce& ring, std::int64_t bytes,
           const std::vector<double>& seconds, double cpu) {
    const double n = world.size();
    const double typical = median(seconds);
    std::printf(
        "%-8s ranks %d bytes %10lld median_s %.3e min_s %.3e bus_gb_per_s %.3f cpu_s %.2e\n",
        std::string(to_text(ring.algorithm())).c_str(), world.size(), static_cast<long long>(bytes),
        typical, *std::min_element(seconds.begin(), seconds.end()),
        2 * (n - 1) / n * static_cast<double>(bytes) / typical * 1e-9,
        cpu / static_cast<double>(seconds.size()));
    std::fflush(stdout);
}

void measure(World& world, std::int64_t bytes, const AllReduceOptions& options) {
    const SteadyClock clock;
    std::vector<int> members(static_cast<std::size_t>(world.size()));
    std::iota(members.begin(), members.end(), 0);
    AllReduceOptions barrier_options = options;
    barrier_options.algorithm = AllReduceAlgorithm::kRing;
    const auto barrier = make_all_reduce(world, members, 1, barrier_options);
    const auto ring = make_all_reduce(world, members, bytes / 4, options);
    const auto repetitions = static_cast<std::uint64_t>(
        std::clamp<std::int64_t>((std::int64_t{256} << 20) / bytes, 10, 400));
    std::vector<double> seconds;
    double last = 0;
    double cpu = 0;
    for (std::uint64_t round = 1; round <= repetitions + 5; ++round) {
        const double slowest = round_of(*barrier, round, last);
        if (round > 5) {
            seconds.push_back(slowest);
        }
        const double cpu_before = process_cpu_seconds();
        const Clock::Seconds start = clock.now();
        static_cast<void>(round_of(*ring, round, 0));
        last = (clock.now() - start).count();
        cpu += round > 4 ? process_cpu_seconds() - cpu_before : 0;
    }
    if (world.rank() == 0) {
        print(world, *ring, bytes, seconds, cpu);
    }
}

}  // namespace

int main(int argc, char** argv) {
    try {
        World world({});
        AllReduceOptions options;
        options.algorithm = parse_all_reduce(argc > 1 ? argv[1] : "ring");
        const std::int64_t most = argc > 2 ? std::atoll(argv[2]) : 64 << 20;
        for (int i = 3; i < argc; ++i) {
            options.nodes.push_back(std::atoi(argv[i]));
        }
        for (std::int64_t bytes = 4096; bytes <= most; bytes *= 4) {
            measure(world, bytes, options);
        }
        world.finalize();
        return 0;
    } catch (const std::exception& error) {
        std::fprintf(stderr, "%s\n", error.what());
        return 1;
    }
}
