#include "train/mirror/mirror_store.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "cohort/core/error.hpp"

namespace cohort {
namespace {

constexpr std::string_view kPrefix = "memory:";

}  // namespace

std::string mirror_name(std::uint64_t world, std::uint64_t number) {
    return fmt::format("{}{}.{}", kPrefix, world, number);
}

bool is_mirror(const std::string& checkpoint) {
    return checkpoint.starts_with(kPrefix);
}

MirrorPart pack(const std::string& mirror, const ShardSnapshot& snapshot) {
    auto floats = std::make_shared<std::vector<float>>();
    floats->reserve(snapshot.parameters.size() * (1 + snapshot.optimizer_slots.size()) +
                    snapshot.state.size());
    *floats = snapshot.parameters;
    floats->insert(floats->end(), snapshot.state.begin(), snapshot.state.end());
    MirrorHeader header{.mirror = mirror,
                        .part = snapshot.part,
                        .begin = snapshot.begin,
                        .end = snapshot.end,
                        .version = snapshot.version,
                        .state = static_cast<std::int64_t>(snapshot.state.size()),
                        .slots = {},
                        .scalars = snapshot.optimizer_scalars};
    for (const auto& [name, values] : snapshot.optimizer_slots) {
        header.slots.push_back(name);
        floats->insert(floats->end(), values.begin(), values.end());
    }
    return {.header = std::move(header), .floats = std::move(floats)};
}

ShardSnapshot unpack(const MirrorPart& part) {
    const MirrorHeader& header = part.header;
    const std::int64_t parameters = header.end - header.begin;
    const auto slots = static_cast<std::int64_t>(header.slots.size());
    if (static_cast<std::int64_t>(part.floats->size()) != parameters * (1 + slots) + header.state) {
        fail<PeerError>({.where = header.mirror,
                         .what = fmt::format("part {} has another size", header.part),
                         .hint = "the same program on all ranks"});
    }
    auto at = part.floats->begin();
    const auto take = [&at](std::int64_t count) {
        std::vector<float> values(at, at + count);
        at += count;
        return values;
    };
    ShardSnapshot snapshot{.part = header.part,
                           .begin = header.begin,
                           .end = header.end,
                           .version = header.version,
                           .parameters = take(parameters),
                           .state = take(header.state),
                           .optimizer_slots = {},
                           .optimizer_scalars = header.scalars};
    for (const std::string& name : header.slots) {
        snapshot.optimizer_slots.emplace_back(name, take(parameters));
    }
    return snapshot;
}

void MirrorStore::put(MirrorPart part) {
    const std::lock_guard lock(mutex_);
    mirrors_[part.header.mirror].parts[part.header.part] = std::move(part);
}

void MirrorStore::complete(MirrorBooks books) {
    const std::lock_guard lock(mutex_);
    const std::int64_t version = books.snapshot.version;
    std::erase_if(mirrors_, [&](const auto& other) {
        const Mirror& one = other.second;
        return other.first != books.mirror &&
               (one.books
                    ? one.books->snapshot.version < version
                    : !one.parts.empty() && one.parts.begin()->second.header.version < version);
    });
    Mirror& mirror = mirrors_[books.mirror];
    mirror.books = std::move(books);
}

std::vector<MirrorStore::Held> MirrorStore::held() const {
    const std::lock_guard lock(mutex_);
    std::vector<Held> all;
    for (const auto& [name, mirror] : mirrors_) {
        Held one{.mirror = name};
        if (mirror.books) {
            one.samples = mirror.books->snapshot.progress.samples_applied;
            one.of = mirror.books->parts;
        }
        for (const auto& [part, values] : mirror.parts) {
            one.parts.push_back(part);
        }
        all.push_back(std::move(one));
    }
    return all;
}

std::optional<MirrorPart> MirrorStore::part(const std::string& mirror, std::int32_t part) const {
    const std::lock_guard lock(mutex_);
    const auto found = mirrors_.find(mirror);
    if (found == mirrors_.end() || !found->second.parts.contains(part)) {
        return std::nullopt;
    }
    return found->second.parts.at(part);
}

std::optional<MirrorBooks> MirrorStore::books(const std::string& mirror) const {
    const std::lock_guard lock(mutex_);
    const auto found = mirrors_.find(mirror);
    return found == mirrors_.end() ? std::nullopt : found->second.books;
}

void MirrorStore::clear() {
    const std::lock_guard lock(mutex_);
    mirrors_.clear();
    ++world_;
}

std::uint64_t MirrorStore::world() const {
    const std::lock_guard lock(mutex_);
    return world_;
}

}  // namespace cohort
