#include "train/coordinator/gathering.hpp"

#include <algorithm>
#include <utility>

#include "cohort/core/error.hpp"
#include "train/protocol/complete_transfers.hpp"

namespace cohort {

Gathering::Gathering(std::vector<ShardRange> shards) : shards_(std::move(shards)) {
}

Gathering::~Gathering() {
    for (auto& [id, one] : open_) {
        for (std::size_t i = 0; i < one.parts.size(); ++i) {
            if (one.parts[i] && !one.arrived[i]) {
                keep_for_good(std::shared_ptr<float[]>(std::move(one.parts[i])));
            }
        }
    }
}

Gathering::Open& Gathering::open(std::uint64_t id) {
    Open& one = open_[id];
    one.parts.resize(shards_.size());
    one.arrived.resize(shards_.size());
    return one;
}

std::span<std::byte> Gathering::accept(const Message& announcement, std::uint64_t bytes) {
    const auto header = decode<GatheredHeader>(announcement.body);
    const auto part = static_cast<std::size_t>(header.part);
    if (part >= shards_.size() ||
        bytes != static_cast<std::uint64_t>(shards_[part].floats()) * sizeof(float)) {
        return {};
    }
    const auto floats = static_cast<std::size_t>(shards_[part].floats());
    auto memory = std::make_unique_for_overwrite<float[]>(floats);  // quick: not zeroed
    const std::span<float> span(memory.get(), floats);
    const std::lock_guard lock(mutex_);
    Open& one = open(header.gather);
    if (one.parts[part] && !one.arrived[part]) {  // from a rank that was lost meanwhile
        keep_for_good(std::shared_ptr<float[]>(std::move(one.parts[part])));
    }
    one.parts[part] = std::move(memory);
    return std::as_writable_bytes(span);
}

std::optional<Gathered> Gathering::arrived(const Message& announcement) {
    const auto header = decode<GatheredHeader>(announcement.body);
    const auto part = static_cast<std::size_t>(header.part);
    Open complete;
    {
        const std::lock_guard lock(mutex_);
        Open& one = open(header.gather);
        const bool first = std::ranges::count(one.arrived, true) == 0;
        if (part >= shards_.size() || !one.parts[part] ||
            (!first && one.version != header.version)) {
            fail<PeerError>({.where = "snapshot",
                             .what = "a shard that does not fit the others",
                             .expected = "version " + std::to_string(one.version),
                             .got = "version " + std::to_string(header.version)});
        }
        one.version = header.version;
        one.arrived[part] = true;
        if (std::ranges::count(one.arrived, false) > 0) {
            return std::nullopt;
        }
        complete = std::move(one);
        open_.erase(header.gather);
    }
    Gathered whole{.id = header.gather, .version = complete.version, .parameters = {}, .state = {}};
    whole.parameters.reserve(static_cast<std::size_t>(shards_.back().end));
    for (std::size_t i = 0; i < shards_.size(); ++i) {
        const float* begin = complete.parts[i].get();
        const float* end = begin + shards_[i].parameters();
        whole.parameters.insert(whole.parameters.end(), begin, end);
        whole.state.insert(whole.state.end(), end, end + shards_[i].state);
        complete.parts[i].reset();
    }
    return whole;
}

std::vector<int> Gathering::coming() {
    const std::lock_guard lock(mutex_);
    std::vector<int> parts;
    for (const auto& [id, one] : open_) {
        for (std::size_t i = 0; i < one.parts.size(); ++i) {
            if (one.parts[i] && !one.arrived[i]) {
                parts.push_back(static_cast<int>(i));
            }
        }
    }
    return parts;
}

std::vector<int> Gathering::missing(std::uint64_t id) {
    const std::lock_guard lock(mutex_);
    const Open& one = open(id);
    std::vector<int> parts;
    for (std::size_t i = 0; i < shards_.size(); ++i) {
        if (!one.arrived[i]) {
            parts.push_back(static_cast<int>(i));
        }
    }
    return parts;
}

}  // namespace cohort
