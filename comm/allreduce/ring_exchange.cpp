#include "comm/allreduce/ring_exchange.hpp"

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "cohort/core/clock.hpp"
#include "cohort/core/error.hpp"
#include "comm/allreduce/ring_engine.hpp"

namespace cohort {
namespace {

constexpr std::array<std::pair<AllReduceAlgorithm, std::string_view>, 5> kNames{
    {{AllReduceAlgorithm::kAuto, "auto"},
     {AllReduceAlgorithm::kRing, "ring"},
     {AllReduceAlgorithm::kOrdered, "ordered"},
     {AllReduceAlgorithm::kMpi, "mpi"},
     {AllReduceAlgorithm::kNccl, "nccl"}}};

[[noreturn]] void fail_usage(const std::string& what, const std::string& expected,
                             const std::string& got) {
    fail<UsageError>({.where = "RingExchange", .what = what, .expected = expected, .got = got});
}

/// One member's own buffers: nothing to exchange.
class SoloEngine final : public RingEngine {
public:
    explicit SoloEngine(const Buckets& buckets) {
        for (auto& buffer : buffers_) {
            buffer.resize(static_cast<std::size_t>(buckets.floats));
        }
    }
    float* begin(std::uint64_t ordinal, std::uint64_t) override {
        return buffers_[ordinal % 2].data();
    }
    void arrive(std::int64_t) override {}
    void hand_in(const RingTail& tail) override { tail_ = tail; }
    std::optional<std::vector<RingTail>> wait() override { return {{tail_}}; }

private:
    std::array<std::vector<float>, 2> buffers_;
    RingTail tail_;
};

void check_members(const std::vector<int>& members, int ranks) {
    const std::set<int> distinct(members.begin(), members.end());
    if (distinct.empty() || distinct.size() != members.size() || *distinct.begin() < 0 ||
        *distinct.rbegin() >= ranks) {
        fail_usage("members must be different ranks of the world",
                   "1 or more of 0.." + std::to_string(ranks - 1),
                   std::to_string(members.size()) + " members");
    }
}

void check_sizes(std::int64_t floats, std::int64_t bucket_bytes) {
    if (floats <= 0 || bucket_bytes <= 0) {
        fail_usage("buffer and buckets must have a size", "more than 0",
                   std::to_string(floats) + " floats in buckets of " +
                       std::to_string(bucket_bytes) + " bytes");
    }
}

/// The node of each member, as they lie or as the options say.
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

std::unique_ptr<RingEngine> make_engine(const RingSetting& setting, AllReduceAlgorithm algorithm,
                                        const RingOptions& options) {
    switch (algorithm) {
        case AllReduceAlgorithm::kMpi: return make_mpi_engine(setting);
        case AllReduceAlgorithm::kNccl:
            if (options.device == nullptr || options.stream == nullptr ||
                options.device->kind() != DeviceKind::kCuda) {
                fail_usage("nccl sums memory of GPUs", "a member on a GPU", "one on the CPU");
            }
            return make_nccl_engine(setting, *options.device, *options.stream);
        default: return make_shared_engine(setting, algorithm);
    }
}

}  // namespace

AllReduceAlgorithm parse_all_reduce(std::string_view text) {
    for (const auto& [algorithm, name] : kNames) {
        if (name == text) {
            return algorithm;
        }
    }
    fail<UsageError>({.where = "--all-reduce",
                      .what = "unknown algorithm",
                      .expected = "auto, ring, ordered, mpi or nccl",
                      .got = text});
}

std::string_view to_text(AllReduceAlgorithm algorithm) noexcept {
    return kNames[static_cast<std::size_t>(algorithm)].second;
}

std::unique_ptr<RingEngine> make_solo_engine(const Buckets& buckets) {
    return std::make_unique<SoloEngine>(buckets);
}

struct RingExchange::Impl {
    enum class Phase { kIdle, kFilling, kHandedIn, kBroken };

    Impl(std::int64_t floats, std::int64_t bucket_bytes)
        : buckets(floats, bucket_bytes), ranges(floats) {}

    void expect(Phase wanted, std::string_view call) const {
        if (phase != wanted) {
            throw std::logic_error("RingExchange: " + std::string(call) + " out of order");
        }
    }
    /// The clock starts when the first bucket is ready.
    void start_clock() {
        if (!started) {
            started = true;
            first_ready = clock.now();
        }
    }

    SteadyClock clock;
    Buckets buckets;
    ReadyRanges ranges;
    AllReduceAlgorithm algorithm = AllReduceAlgorithm::kRing;
    std::unique_ptr<RingEngine> engine;
    Phase phase = Phase::kIdle;
    std::uint64_t ordinal = 0;
    std::uint64_t round = 0;
    std::int64_t left = 0;  ///< buckets that have left
    bool started = false;
    Clock::Seconds first_ready{0};
    double handing_in_s = 0;
    RingTimes times;
};

RingExchange::RingExchange(World& world, std::vector<int> members, std::int64_t floats,
                           const RingOptions& options) {
    check_members(members, world.size());
    const auto self = std::find(members.begin(), members.end(), world.rank());
    if (self == members.end()) {
        fail_usage("this rank is no member", "rank " + std::to_string(world.rank()) + " among them",
                   world.map().describe(members));
    }
    check_sizes(floats, options.bucket_bytes);
    impl_ = std::make_unique<Impl>(floats, options.bucket_bytes);
    std::vector<int> nodes = nodes_of(world.map(), members, options.nodes);
    const bool automatic = options.algorithm == AllReduceAlgorithm::kAuto;
    const NcclPlace place = automatic ? nccl_place(options.device, options.stream) : NcclPlace{};
    if (members.size() == 1 && options.algorithm != AllReduceAlgorithm::kNccl &&
        place.place.empty()) {
        impl_->engine = make_solo_engine(impl_->buckets);
        return;
    }
    CommThread& thread = comm_thread(world);
    const RingSetting setting{.thread = thread,
                              .members = members,
                              .watched = options.watched,
                              .nodes = std::move(nodes),
                              .self = static_cast<int>(self - members.begin()),
                              .buckets = impl_->buckets,
                              .asked = options.algorithm,
                              .epoch = options.epoch.value_or(thread.members().epoch())};
    ChosenEngine made =
        automatic
            ? make_automatic_engine(
                  setting, place,
                  [&] { return make_engine(setting, AllReduceAlgorithm::kNccl, options); })
            : ChosenEngine{options.algorithm, make_engine(setting, options.algorithm, options)};
    impl_->algorithm = made.algorithm;
    impl_->engine = std::move(made.engine);
}

RingExchange::~RingExchange() = default;

std::span<float> RingExchange::begin(std::uint64_t round) {
    Impl& ring = *impl_;
    ring.expect(Impl::Phase::kIdle, "begin");
    if (ring.ordinal > 0 && round <= ring.round) {
        fail_usage("rounds must ascend", "more than " + std::to_string(ring.round),
                   std::to_string(round));
    }
    ring.phase = Impl::Phase::kFilling;
    ring.round = round;
    ++ring.ordinal;
    ring.left = 0;
    ring.started = false;
    ring.ranges.clear();
    float* buffer = ring.engine->begin(ring.ordinal, round);
    return {buffer, static_cast<std::size_t>(ring.buckets.floats)};
}

void RingExchange::ready(std::int64_t begin, std::int64_t end) {
    Impl& ring = *impl_;
    ring.expect(Impl::Phase::kFilling, "ready");
    ring.ranges.add(begin, end);
    const std::int64_t buckets = ring.buckets.behind(ring.ranges.frontier());
    if (buckets > ring.left) {
        ring.start_clock();
        ring.left = buckets;
        ring.engine->arrive(buckets);
    }
}

void RingExchange::finish(const RingTail& tail) {
    Impl& ring = *impl_;
    ring.expect(Impl::Phase::kFilling, "finish");
    ring.phase = Impl::Phase::kHandedIn;
    ring.start_clock();
    const Clock::Seconds start = ring.clock.now();
    ring.engine->hand_in(tail);
    ring.handing_in_s = (ring.clock.now() - start).count();
}

std::optional<std::vector<RingTail>> RingExchange::wait() {
    Impl& ring = *impl_;
    ring.expect(Impl::Phase::kHandedIn, "wait");
    const Clock::Seconds start = ring.clock.now();
    std::optional<std::vector<RingTail>> tails = ring.engine->wait();
    const Clock::Seconds end = ring.clock.now();
    ring.phase = tails ? Impl::Phase::kIdle : Impl::Phase::kBroken;
    ring.times = {.exchange_s = (end - ring.first_ready).count(),
                  .exposed_s = (end - start).count() + ring.handing_in_s};
    return tails;
}

RingTimes RingExchange::times() const noexcept {
    return impl_->times;
}

AllReduceAlgorithm RingExchange::algorithm() const noexcept {
    return impl_->algorithm;
}

}  // namespace cohort
