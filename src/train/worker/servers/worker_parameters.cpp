#include "train/worker/servers/worker_parameters.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "core/bf16.hpp"

namespace cohort {
namespace {

[[noreturn]] void refuse_parameters(std::string_view what, const ParametersHeader& header) {
    fail<PeerError>({.where = "parameters",
                     .what = what,
                     .got = fmt::format("version {} from server {}", header.version, header.server),
                     .hint = "the same program and options on all ranks"});
}

/// In the list of a set's parts.
std::size_t index_of(const ParametersHeader& header) {
    return static_cast<std::size_t>(header.server) * static_cast<std::size_t>(header.pieces) +
           static_cast<std::size_t>(header.piece);
}

}  // namespace

ShardedLayout::ShardedLayout(std::vector<ShardRange> shards)
    : shards_(std::move(shards)), parameters_(shards_.back().end), state_(shards_.back().state) {
}

void ShardedLayout::adopt(const ShardLayout& layout) {
    shards_ = shards_of(layout, state_);
    number_ = layout.number;
}

ParameterInbox::ParameterInbox(const ShardedLayout& layout, Device& device, Wire wire)
    : parameters_(layout.parameters()),
      state_(layout.state()),
      servers_(layout.shards().size()),
      wire_(wire),
      device_(device) {
    free_.push_back(memory());  // made here, not on the communication thread
}

/// What a worker was sent before it was lost may come for as long as the process lives: memory of
/// abandoned sets is never freed.
ParameterInbox::~ParameterInbox() {
    for (Set& set : sets_) {
        if (set.coming()) {
            (void)std::make_unique<Buffer>(std::move(set.parameters.values)).release();
        }
    }
}

bool ParameterInbox::Set::coming() const {
    return std::count(parts.begin(), parts.end(), Part::kComing) > 0;
}

Buffer ParameterInbox::memory() {
    if (free_.empty()) {
        return device_.allocate_host(static_cast<std::size_t>(parameters_ + state_) *
                                     sizeof(float));
    }
    Buffer buffer = std::move(free_.back());
    free_.pop_back();
    return buffer;
}

void ParameterInbox::give_back(ReceivedParameters used) {
    const std::lock_guard lock(mutex_);
    free_.push_back(std::move(used.values));
}

/// Overtaken sets into which nothing is written any more.
void ParameterInbox::drop_overtaken() {
    const auto unused = [](const Set& set) { return set.overtaken && !set.coming(); };
    for (auto set = std::find_if(sets_.begin(), sets_.end(), unused); set != sets_.end();
         set = std::find_if(sets_.begin(), sets_.end(), unused)) {
        free_.push_back(std::move(set->parameters.values));
        sets_.erase(set);
    }
}

/// It names parts of this run's parameters.
bool ParameterInbox::fits(const ParametersHeader& header) const {
    return header.server >= 0 && static_cast<std::size_t>(header.server) < servers_ &&
           header.piece >= 0 && header.piece < header.pieces && header.begin >= 0 &&
           header.begin <= header.end && header.end <= parameters_;
}

/// Nobody needs it any more: the worker has had these parameters, or newer ones.
bool ParameterInbox::late(const ParametersHeader& header) const {
    return header.incarnation < incarnation_ ||
           (header.way != ParametersWay::kStraight && header.version <= taken_);
}

ParameterInbox::Set* ParameterInbox::find(const ParametersHeader& header, Part part) {
    const auto same = [&](const Set& set) {
        return set.parameters.version == header.version && set.incarnation == header.incarnation &&
               set.parameters.evaluation.id == header.evaluation.id && set.way == header.way &&
               set.parts.size() == servers_ * static_cast<std::size_t>(header.pieces) &&
               set.parts[index_of(header)] == part;
    };
    const auto found = std::find_if(sets_.begin(), sets_.end(), same);
    return found == sets_.end() ? nullptr : &*found;
}

std::span<std::byte> ParameterInbox::accept(const Message& announcement, std::uint64_t bytes) {
    if (static_cast<MessageKind>(announcement.kind) != MessageKind::kParameters) {
        return {};
    }
    const auto header = decode<ParametersHeader>(announcement.body);
    const bool has_state = static_cast<std::size_t>(header.server) + 1 == servers_ &&
                           header.piece + 1 == header.pieces;
    const ShardRange shard{.part = header.server,
                           .begin = header.begin,
                           .end = header.end,
                           .state = has_state ? state_ : 0};
    const PulledBytes pulled{.wire = wire_, .parameters = shard.parameters()};
    if (!fits(header) || bytes != pulled.of(shard.floats())) {
        return {};  // arrived() complains, on the thread that may
    }
    const std::lock_guard lock(mutex_);
    if (late(header)) {
        return {};
    }
    Set* set = find(header, Part::kNone);
    if (set == nullptr) {
        const std::size_t parts = servers_ * static_cast<std::size_t>(header.pieces);
        sets_.push_back({.parameters = {header.version, header.evaluation, header.outcomes,
                                        memory(), SteadyClock().now()},
                         .parts = std::vector<Part>(parts, Part::kNone),
                         .from = std::vector<int>(parts, -1),
                         .incarnation = header.incarnation,
                         .way = header.way});
        set = &sets_.back();
    }
    set->parts[index_of(header)] = Part::kComing;
    set->from[index_of(header)] = announcement.from.rank;
    const auto part = ShardedLayout::part(set->parameters.values.floats(), shard);
    return std::as_writable_bytes(part).last(bytes);  // bf16 is widened in place
}

void ParameterInbox::arrived(const ParametersHeader& header) {
    std::unique_lock lock(mutex_);
    Set* set = fits(header) ? find(header, Part::kComing) : nullptr;
    if (set == nullptr && late(header)) {
        return;
    }
    if (set == nullptr) {
        refuse_parameters("a part came that does not fit this run's shards", header);
    }
    if (wire_ == Wire::kBf16) {
        float* const part = set->parameters.values.floats() + header.begin;
        lock.unlock();  // only the role's thread, which calls this, lets go of the memory
        widen_bf16_in_place({part, static_cast<std::size_t>(header.end - header.begin)});
        lock.lock();
    }
    set->parts[index_of(header)] = Part::kHere;
    drop_overtaken();
}

void ParameterInbox::forget(const ParametersHeader& header) {
    const std::lock_guard lock(mutex_);
    if (Set* set = fits(header) ? find(header, Part::kComing) : nullptr) {
        set->parts[index_of(header)] = Part::kHere;
    }
}

void ParameterInbox::begin_incarnation(std::uint32_t incarnation) {
    const std::lock_guard lock(mutex_);
    incarnation_ = incarnation;
    taken_ = -1;
    for (Set& set : sets_) {
        set.overtaken = set.overtaken || set.incarnation < incarnation;
    }
    drop_overtaken();
}

std::vector<int> ParameterInbox::coming() const {
    const std::lock_guard lock(mutex_);
    std::vector<int> ranks;
    for (const Set& set : sets_) {
        const bool abandoned = set.incarnation < incarnation_;
        for (std::size_t part = 0; part < set.parts.size() && !abandoned; ++part) {
            if (set.parts[part] == Part::kComing) {
                ranks.push_back(set.from[part]);
            }
        }
    }
    return ranks;
}

bool ParameterInbox::complete(const Set& set) const {
    return !set.overtaken && set.incarnation == incarnation_ &&
           std::all_of(set.parts.begin(), set.parts.end(),
                       [](Part part) { return part == Part::kHere; });
}

bool ParameterInbox::has_complete() const {
    const std::lock_guard lock(mutex_);
    return std::any_of(sets_.begin(), sets_.end(),
                       [this](const Set& set) { return complete(set); });
}

std::optional<ReceivedParameters> ParameterInbox::take() {
    const std::lock_guard lock(mutex_);
    const auto found =
        std::find_if(sets_.begin(), sets_.end(), [this](const Set& set) { return complete(set); });
    if (found == sets_.end()) {
        return std::nullopt;
    }
    ReceivedParameters taken = std::move(found->parameters);
    const ParametersWay way = found->way;
    sets_.erase(found);
    overtake(taken.version, way);
    taken_ = std::max(taken_, taken.version);
    return taken;
}

/// Those before a version that was taken, and those in whose place it came, or that came in its.
void ParameterInbox::overtake(std::int64_t version, ParametersWay way) {
    for (Set& set : sets_) {
        const bool straight = set.way == ParametersWay::kStraight;
        const bool older = set.parameters.version < version && !(straight && complete(set));
        const bool other =
            set.parameters.version == version && !straight && way != ParametersWay::kStraight;
        if (set.overtaken || set.incarnation != incarnation_ || !(older || other)) {
            continue;
        }
        if (set.parameters.evaluation.id != 0) {
            fail<PeerError>(
                {.where = "parameters",
                 .what = "servers do not send the same versions: an evaluation is lost",
                 .expected = fmt::format("all parts of version {}", set.parameters.version),
                 .got = fmt::format("version {}", version)});
        }
        set.overtaken = true;
    }
    drop_overtaken();
}

std::vector<int> ParameterInbox::missing() const {
    const std::lock_guard lock(mutex_);
    const auto waiting = std::find_if(sets_.begin(), sets_.end(), [this](const Set& set) {
        return !set.overtaken && set.incarnation == incarnation_;
    });
    std::vector<int> servers;
    for (std::size_t server = 0; server < servers_; ++server) {
        const std::size_t pieces = waiting == sets_.end() ? 0 : waiting->parts.size() / servers_;
        std::size_t here = 0;
        for (std::size_t piece = 0; piece < pieces; ++piece) {
            here += waiting->parts[server * pieces + piece] == Part::kHere ? 1 : 0;
        }
        if (pieces == 0 || here < pieces) {
            servers.push_back(static_cast<int>(server));
        }
    }
    return servers;
}

}  // namespace cohort
