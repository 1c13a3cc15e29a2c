#include "python/module/collectives.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <numeric>
#include <optional>
#include <tuple>

#include "cohort/comm/membership.hpp"
#include "core/bytes.hpp"
#include "core/log.hpp"
#include "core/system/launch_env.hpp"

namespace cohort {
namespace {

/// Floats that are summed at once, at most: a member's buffers have twice that size.
constexpr std::int64_t kPiece = std::int64_t{1} << 20;
/// How long a wait goes on before lost ranks are looked for.
constexpr Clock::Seconds kLostLook{0.1};

/// Numbers of floats for which there are buffers: eight in an octave, so that sums of whatever
/// sizes use few buffers, and at most an eighth more is summed than asked for.
std::int64_t buffer_floats(std::int64_t floats) {
    constexpr std::uint64_t kLeast = 256;
    const std::uint64_t wanted = std::max(static_cast<std::uint64_t>(floats), kLeast);
    const std::uint64_t step = std::bit_floor(wanted) / 8;
    return static_cast<std::int64_t>((wanted + step - 1) / step * step);
}

/// What the ranks must agree on in a round of a sum.
struct SumFacts {
    std::uint64_t collective = 0;
    std::int64_t floats = 0;
    friend bool operator==(const SumFacts&, const SumFacts&) = default;
};

/// What an exchange says of its bytes.
struct ExchangeFacts {
    std::uint64_t collective = 0;
    std::string name;
    auto fields() { return std::tie(collective, name); }
};

[[noreturn]] void fail_different(const std::string& name, const std::string& rank,
                                 const std::string& expected, const std::string& got) {
    fail<UsageError>({.where = name,
                      .what = rank + " is in another collective",
                      .expected = expected,
                      .got = got,
                      .hint = "the same collectives in the same order, with tensors of the same "
                              "sizes, on all ranks"});
}

}  // namespace

Collectives::Collectives(double limit_s) {
    check_one_world(read_launch_env());
    world_ = std::make_unique<World>(WorldOptions{.stall_limit_s = limit_s / 2});
    world_->messenger().set_sink(Port::kWorker, this);
    if (rank() == 0) {
        Membership& members = world_->membership();
        members.watch([&members](const RankEvent& event) {
            if (event.kind == RankEvent::Kind::kSilent) {
                log_warn("rank 0: {}", event.reason);
                members.exclude(event.rank);
            }
        });
    }
    std::string nothing;  // nobody sends before all sinks are set
    static_cast<void>(world_->agree(ExitCode::kDone, nothing));
}

std::vector<int> Collectives::all_ranks() const {
    std::vector<int> all(static_cast<std::size_t>(map().size()));
    std::iota(all.begin(), all.end(), 0);
    return all;
}

bool Collectives::lost_any() const {
    return world_ && world_->membership().epoch() > 0;
}

void Collectives::check_members(const std::string& name) const {
    const std::vector<int> all = all_ranks();
    const auto lost = std::ranges::find_if(
        all, [this](int other) { return world_->membership().excluded(other); });
    if (lost != all.end()) {
        fail<PeerError>({.where = name,
                         .what = *lost == rank() ? "this rank was taken for lost, the others go on "
                                                   "without it: " +
                                                       map().describe(*lost)
                                                 : map().describe(*lost) + " was lost",
                         .hint = "to start again from the script's last checkpoint"});
    }
}

void Collectives::sum(std::span<float> values) {
    ++count_;
    while (values.size() > static_cast<std::size_t>(kPiece)) {
        sum_piece(values.last(static_cast<std::size_t>(kPiece)));
        values = values.first(values.size() - static_cast<std::size_t>(kPiece));
    }
    if (!values.empty()) {
        sum_piece(values);
    }
}

void Collectives::sum_piece(std::span<float> values) {
    const std::string name = "all_reduce";
    check_members(name);
    const auto floats = static_cast<std::int64_t>(values.size());
    std::unique_ptr<AllReduce>& sum = sums_[buffer_floats(floats)];
    const SumFacts own{.collective = count_, .floats = floats};
    // Ranks whose buffers differ never meet: the log tells what each of them is in.
    const auto wait = world_->operations().begin(fmt::format("{} of {} values", name, floats),
                                                 count_, {}, WaitLimit::kWarn);
    try {
        if (!sum) {
            sum = make_all_reduce(*world_, all_ranks(), buffer_floats(floats),
                                  {.algorithm = AllReduceAlgorithm::kRing});
        }
    } catch (const RingBroken&) {
        check_members(name);
        throw;
    }
    const std::span<float> buffer = sum->begin(++rounds_);
    std::ranges::fill(std::ranges::copy(values, buffer.begin()).out, buffer.end(), 0.0F);
    sum->finish(pack_summary(own));
    const auto facts = unpack_summaries<SumFacts>(sum->wait());
    if (!facts) {
        sum.reset();
        check_members(name);
        fail<PeerError>({.where = name, .what = "a rank was lost"});
    }
    const auto other = std::ranges::find_if(*facts, [&](const auto& one) { return one != own; });
    if (other != facts->end()) {
        fail_different(name, map().describe(static_cast<int>(other - facts->begin())),
                       fmt::format("{} values in collective {}", own.floats, own.collective),
                       fmt::format("{} in {}", other->floats, other->collective));
    }
    std::copy_n(buffer.begin(), values.size(), values.begin());
}

std::vector<Collectives::Bytes> Collectives::exchange(const std::string& name,
                                                      const std::vector<Outgoing>& outgoing,
                                                      const std::vector<int>& from) {
    ++count_;
    check_members(name);
    ExchangeFacts facts{.collective = count_, .name = name};
    std::span<const std::byte> same;  // for several ranks, as in a broadcast
    std::shared_ptr<const Bytes> copy;
    for (const Outgoing& one : outgoing) {
        if (!copy || one.bytes.data() != same.data() || one.bytes.size() != same.size()) {
            same = one.bytes;
            copy = std::make_shared<const Bytes>(same.begin(), same.end());
        }
        const auto transfer = world_->messenger().start_transfer(
            {.rank = one.to, .port = Port::kWorker}, Port::kWorker, 0, encode(facts), *copy,
            ChunkOrder::kForward, copy);
        transfer->release(copy->size());
    }
    std::vector<Bytes> received;
    for (const int other : from) {
        received.push_back(take(name, other));
    }
    return received;
}

/// On the communication thread.
std::span<std::byte> Collectives::accept(const Message& announcement, std::uint64_t bytes) {
    const auto facts = decode<ExchangeFacts>(announcement.body);
    const std::lock_guard lock(mutex_);
    Bytes& memory = incoming_[{announcement.from.rank, facts.collective}];
    memory.resize(bytes);
    return memory;
}

/// What `from` sends in the current collective.
Collectives::Bytes Collectives::take(const std::string& name, int from) {
    const Key key(from, count_);
    const auto wait =
        world_->operations().begin(name, count_, [from] { return std::vector{from}; });
    while (!arrived_.contains(key)) {
        if (auto message = world_->messenger().mailbox(Port::kWorker).receive(kLostLook)) {
            const Key sent(message->from.rank, decode<ExchangeFacts>(message->body).collective);
            arrived_.insert_or_assign(sent, std::move(*message));
        } else {
            check_members(name);
        }
    }
    const auto facts = decode<ExchangeFacts>(arrived_.extract(key).mapped().body);
    if (facts.name != name) {
        fail_different(name, map().describe(from), name, facts.name);
    }
    const std::lock_guard lock(mutex_);
    return std::move(incoming_.extract(key).mapped());
}

void Collectives::finish() {
    sums_.clear();
    world_->finalize();
    if (world_->left_mpi()) {
        return;
    }
    world_.reset();
}

void Collectives::abort(int code, const std::string& reason) {
    world_->abort(static_cast<ExitCode>(code), reason);
}

}  // namespace cohort
