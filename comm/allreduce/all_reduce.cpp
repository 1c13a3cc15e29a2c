#include "comm/allreduce/all_reduce.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "cohort/core/error.hpp"
#include "comm/allreduce/back_ends.hpp"
#include "comm/allreduce/bucket_all_reduce.hpp"

namespace cohort {
namespace {

[[noreturn]] void fail_usage(const std::string& what, const std::string& expected,
                             const std::string& got) {
    fail<UsageError>({.where = "AllReduce", .what = what, .expected = expected, .got = got});
}

class SoloAllReduce final : public BucketAllReduce {
public:
    explicit SoloAllReduce(const Buckets& all) : BucketAllReduce(all) {}
    /// Nothing is exchanged.
    [[nodiscard]] AllReduceTimes times() const noexcept override { return {}; }

private:
    float* start(std::uint64_t ordinal) override {
        std::vector<float>& buffer = buffers_[ordinal % 2];
        buffer.resize(static_cast<std::size_t>(buckets().floats));
        return buffer.data();
    }
    void arrive(std::int64_t) override {}
    void submit(const SummaryBytes& summary) override { summary_ = summary; }
    std::optional<std::vector<SummaryBytes>> complete() override { return {{summary_}}; }

    std::array<std::vector<float>, 2> buffers_;
    SummaryBytes summary_{};
};

void check_members(const std::vector<int>& members, const World& world) {
    const std::set<int> distinct(members.begin(), members.end());
    if (distinct.empty() || distinct.size() != members.size() || *distinct.begin() < 0 ||
        *distinct.rbegin() >= world.size()) {
        fail_usage("members must be different ranks of the world",
                   "1 or more of 0.." + std::to_string(world.size() - 1),
                   std::to_string(members.size()) + " members");
    }
    if (!distinct.contains(world.rank())) {
        fail_usage("this rank is no member", "rank " + std::to_string(world.rank()) + " among them",
                   world.map().describe(members));
    }
}

void check_sizes(std::int64_t floats, std::int64_t bucket_bytes) {
    if (floats <= 0 || bucket_bytes <= 0) {
        fail_usage("buffer and buckets must have a size", "more than 0",
                   std::to_string(floats) + " floats in buckets of " +
                       std::to_string(bucket_bytes) + " bytes");
    }
}

/// The node of each member, by the real placement or as the options say.
std::vector<int> nodes_of(const RankMap& map, const std::vector<int>& members,
                          const std::vector<int>& told) {
    std::vector<int> nodes;
    for (const int rank : members) {
        nodes.push_back(map.ranks[static_cast<std::size_t>(rank)].node);
    }
    if (told.empty()) {
        return nodes;
    }
    if (told.size() != members.size()) {
        fail_usage("a node for each member is needed", std::to_string(members.size()),
                   std::to_string(told.size()));
    }
    for (std::size_t i = 0; i < members.size(); ++i) {
        for (std::size_t j = 0; j < i; ++j) {
            if (told[i] == told[j] && nodes[i] != nodes[j]) {
                fail_usage("members on one node must share a host", map.describe(members[j]),
                           map.describe(members[i]));
            }
        }
    }
    return told;
}

/// Only the own ring rounds.
AllReduceAlgorithm algorithm_for(const AllReduceOptions& options) {
    if (options.wire == Wire::kF32) {
        return options.algorithm;
    }
    if (options.algorithm != AllReduceAlgorithm::kAuto &&
        options.algorithm != AllReduceAlgorithm::kRing) {
        fail_usage("only the own ring sends bf16", "ring or auto",
                   std::string(word_of(options.algorithm)));
    }
    return AllReduceAlgorithm::kRing;
}

std::unique_ptr<AllReduce> make_back_end(const AllReduceSetting& setting,
                                         AllReduceAlgorithm algorithm,
                                         const AllReduceScope& scope) {
    switch (algorithm) {
        case AllReduceAlgorithm::kMpi: return make_mpi_all_reduce(setting);
        case AllReduceAlgorithm::kNccl:
            if (scope.device == nullptr || scope.stream == nullptr ||
                scope.device->kind() != DeviceKind::kCuda) {
                fail_usage("nccl sums memory of GPUs", "a member on a GPU", "one on the CPU");
            }
            return make_nccl_all_reduce(setting, *scope.device, *scope.stream);
        default: return make_shared_all_reduce(setting, algorithm);
    }
}

}  // namespace

AllReduceAlgorithm parse_all_reduce(std::string_view text) {
    return parse_word<AllReduceAlgorithm>(text, "--all-reduce", "unknown algorithm");
}

std::unique_ptr<AllReduce> make_solo_all_reduce(std::int64_t floats) {
    return std::make_unique<SoloAllReduce>(Buckets(floats, AllReduceOptions{}.bucket_bytes));
}

std::unique_ptr<AllReduce> make_all_reduce(World& world, std::vector<int> members,
                                           std::int64_t floats, const AllReduceOptions& options) {
    check_members(members, world);
    check_sizes(floats, options.bucket_bytes);
    const AllReduceScope& scope = options.scope;
    std::vector<int> nodes = nodes_of(world.map(), members, options.nodes);
    const AllReduceAlgorithm asked = algorithm_for(options);
    const bool automatic = asked == AllReduceAlgorithm::kAuto;
    const NcclPlace place = automatic ? nccl_place(scope.device, scope.stream) : NcclPlace{};
    if (members.size() == 1 && asked != AllReduceAlgorithm::kNccl && place.place.empty()) {
        return make_solo_all_reduce(floats);
    }
    CollectiveContext& comm = collective_context(world);
    const auto self = std::ranges::find(members, world.rank()) - members.begin();
    const AllReduceSetting setting{.comm = comm,
                                   .members = std::move(members),
                                   .watched = scope.watched,
                                   .nodes = std::move(nodes),
                                   .self = static_cast<int>(self),
                                   .buckets = Buckets(floats, options.bucket_bytes),
                                   .wire = options.wire,
                                   .asked = asked,
                                   .epoch = scope.epoch.value_or(comm.network.members.epoch())};
    return automatic ? make_automatic_all_reduce(
                           setting, place,
                           [&] { return make_back_end(setting, AllReduceAlgorithm::kNccl, scope); })
                     : make_back_end(setting, asked, scope);
}

AllReduceFactory all_reduce_factory(World& world, const AllReduceOptions& options) {
    return [&world, options](const std::vector<int>& members, std::int64_t floats,
                             const AllReduceScope& scope) {
        AllReduceOptions scoped = options;
        scoped.scope = scope;
        return make_all_reduce(world, members, floats, scoped);
    };
}

std::vector<int> AllReduceSetting::others() const {
    std::vector<int> ranks = members;
    std::erase(ranks, comm.network.rank());
    return ranks;
}

std::optional<int> AllReduceSetting::lost_member() const {
    const std::optional<int> lost = comm.network.members.lost_since(members, epoch);
    return lost ? lost : comm.network.members.lost_since(watched, epoch);
}

void AllReduceSetting::fail_broken() const {
    const std::optional<int> lost = lost_member();
    fail<RingBroken>(
        {.where = "AllReduce",
         .what = "a member is lost",
         .got = lost ? comm.network.map().describe(*lost) : "one that has come back since"});
}

void AllReduceSetting::fail_rounds_differ(std::size_t member, std::uint64_t expected,
                                          std::uint64_t got) const {
    fail<PeerError>(
        {.where = "ring round",
         .what = "members are in different rounds",
         .expected = std::to_string(expected),
         .got = std::to_string(got) + " on " + comm.network.map().describe(members[member])});
}

std::uint64_t AllReduceSetting::traffic_of(const FloatRange& bucket) const {
    return 2 * (members.size() - 1) * bucket.bytes() / members.size();
}

void AllReduceSetting::count_traffic(const FloatRange& bucket) const {
    const std::uint64_t messages = 2 * (members.size() - 1);
    comm.network.traffic.sent(traffic_of(bucket), messages);
    comm.network.traffic.received(traffic_of(bucket), messages);
}

}  // namespace cohort
