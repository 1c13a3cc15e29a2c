#include "train/protocol/sparse_rows.hpp"

#include <algorithm>
#include <cstring>

namespace cohort {
namespace {

bool is_set(std::span<const std::uint32_t> bits, std::int64_t index) {
    return ((bits[static_cast<std::size_t>(index / 32)] >> (index % 32)) & 1U) != 0;
}

}  // namespace

std::optional<RowTable> find_row_table(const Graph& graph) {
    for (const Graph::Node& node : graph.nodes()) {
        if (node.layer->kind() != "embedding") {
            continue;
        }
        const int table = node.parameter_ranges.front();
        const auto users = std::ranges::count_if(graph.nodes(), [&](const Graph::Node& other) {
            return std::ranges::count(other.parameter_ranges, table) > 0;
        });
        const FlatRange& range = graph.parameters().ranges()[static_cast<std::size_t>(table)];
        if (users == 1) {
            return RowTable{.begin = range.offset, .rows = range.shape[0], .width = range.shape[1]};
        }
    }
    return std::nullopt;
}

ShardRows::ShardRows(std::optional<RowTable> table, const ShardRange& shard)
    : table_(table), shard_(shard) {
    if (table_ && table_->begin < shard.end && table_->end() > shard.begin) {
        first_ = std::max<std::int64_t>(0, shard.begin - table_->begin) / table_->width;
        const std::int64_t last = std::min(table_->end(), shard.end) - 1;
        end_ = (last - table_->begin) / table_->width + 1;
    }
}

std::pair<std::int64_t, std::int64_t> ShardRows::floats_of(std::int64_t row) const noexcept {
    const std::int64_t begin = table_->begin + row * table_->width;
    return {std::max(begin, shard_.begin), std::min(begin + table_->width, shard_.end)};
}

std::int64_t ShardRows::kept(std::span<const std::uint32_t> bits) const noexcept {
    std::int64_t floats = shard_.floats();
    for (std::int64_t row = first_; row < end_; ++row) {
        const auto [begin, end] = floats_of(row);
        floats -= is_set(bits, row - first_) ? 0 : end - begin;
    }
    return floats;
}

/// Front to back: what is left to move never lies before its place.
void ShardRows::expand(std::span<float> memory) const {
    std::vector<std::uint32_t> bits(static_cast<std::size_t>(words()));
    std::memcpy(bits.data(), memory.last(bits.size()).data(), bits.size() * sizeof(std::uint32_t));
    const float* from = memory.data() + shard_.floats() - kept(bits);
    float* to = memory.data();
    const auto move = [&](std::int64_t floats) {
        std::memmove(to, from, static_cast<std::size_t>(floats) * sizeof(float));
        from += floats;
        to += floats;
    };
    std::int64_t at = shard_.begin;  // what is before it is in its place
    for (std::int64_t row = first_; row < end_; ++row) {
        const auto [begin, end] = floats_of(row);
        if (!is_set(bits, row - first_)) {
            move(begin - at);
            std::fill_n(to, end - begin, 0.0F);
            to += end - begin;
            at = end;
        }
    }
    move(shard_.begin + shard_.floats() - at);
}

PushForm::PushForm(std::vector<ShardRange> shards, Wire wire)
    : shards_(std::move(shards)), wire_(wire) {
    for (const ShardRange& shard : shards_) {
        parts_.push_back({.kept = shard.floats(), .bits = {}});
        runs_.push_back(
            {.begin = shard.begin, .end = shard.begin + shard.floats(), .to = shard.begin});
    }
}

PushForm::PushForm(std::vector<ShardRange> shards, Wire wire, const RowTable& table,
                   std::span<const std::int32_t> tokens)
    : shards_(std::move(shards)), wire_(wire) {
    std::vector<bool> present(static_cast<std::size_t>(table.rows));
    for (const std::int32_t token : tokens) {
        if (token >= 0 && token < table.rows) {  // the replica refuses others by name
            present[static_cast<std::size_t>(token)] = true;
        }
    }
    for (const ShardRange& shard : shards_) {
        add_part(shard, ShardRows(table, shard), present);
    }
}

void PushForm::add_part(const ShardRange& shard, const ShardRows& rows,
                        const std::vector<bool>& present) {
    const std::int64_t end = shard.begin + shard.floats();
    Part part{.kept = shard.floats(),
              .bits = std::vector<std::uint32_t>(static_cast<std::size_t>(rows.words()))};
    for (std::int64_t row = rows.first(); row < rows.end(); ++row) {
        const std::int64_t bit = row - rows.first();
        part.bits[static_cast<std::size_t>(bit / 32)] |=
            std::uint32_t{present[static_cast<std::size_t>(row)]} << (bit % 32);
    }
    const std::int64_t kept = rows.kept(part.bits);
    if (bytes_of(kept) + part.bits.size() * sizeof(std::uint32_t) >= bytes_of(shard.floats())) {
        part.bits.clear();
        runs_.push_back({.begin = shard.begin, .end = end, .to = shard.begin});
        parts_.push_back(std::move(part));
        return;
    }
    Run run{.begin = shard.begin, .end = shard.begin, .to = shard.begin};
    const auto keep_until = [&](std::int64_t last, std::int64_t next) {
        run.end = last;
        if (run.begin < run.end) {
            runs_.push_back(run);
        }
        run = {.begin = next, .end = next, .to = run.to + run.end - run.begin};
    };
    for (std::int64_t row = rows.first(); row < rows.end(); ++row) {
        if (!present[static_cast<std::size_t>(row)]) {
            const auto [begin, after] = rows.floats_of(row);
            keep_until(begin, after);
        }
    }
    keep_until(end, end);
    part.kept = kept;
    parts_.push_back(std::move(part));
}

std::uint64_t PushForm::bytes(std::size_t shard) const {
    return bytes_of(parts_[shard].kept) + parts_[shard].bits.size() * sizeof(std::uint32_t);
}

std::uint64_t PushForm::bytes_from(std::size_t shard, std::int64_t low) const {
    const ShardRange& range = shards_[shard];
    const std::vector<Run> left = runs(std::max(low, range.begin), range.begin + range.floats());
    const std::int64_t before = left.empty() ? parts_[shard].kept : left.front().to - range.begin;
    return bytes(shard) - bytes_of(before);
}

std::vector<PushForm::Run> PushForm::runs(std::int64_t begin, std::int64_t end) const {
    std::vector<Run> found;
    for (auto run = std::ranges::upper_bound(runs_, begin, {}, &Run::end);
         run != runs_.end() && run->begin < end; ++run) {
        const std::int64_t from = std::max(begin, run->begin);
        found.push_back(
            {.begin = from, .end = std::min(end, run->end), .to = run->to + from - run->begin});
    }
    return found;
}

void PushForm::put_bits(std::byte* memory) const {
    for (std::size_t i = 0; i < parts_.size(); ++i) {
        const Part& part = parts_[i];
        if (!part.bits.empty()) {
            std::memcpy(memory + bytes_of(shards_[i].begin + part.kept), part.bits.data(),
                        part.bits.size() * sizeof(std::uint32_t));
        }
    }
}

}  // namespace cohort
