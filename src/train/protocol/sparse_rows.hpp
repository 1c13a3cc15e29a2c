#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "cohort/core/wire.hpp"
#include "cohort/model/graph.hpp"
#include "train/protocol/shards.hpp"

namespace cohort {

/// The table of an embedding within the flat parameters. Of a mini-batch only the rows of its
/// tokens have a gradient, so pushes leave the others out.
struct RowTable {
    std::int64_t begin = 0;  ///< float of the first row
    std::int64_t rows = 0;
    std::int64_t width = 0;  ///< floats of a row

    [[nodiscard]] std::int64_t end() const noexcept { return begin + rows * width; }
};

/// Nothing where the network reads no tokens, or where the table is a weight of another layer too,
/// which gives every row a gradient.
[[nodiscard]] std::optional<RowTable> find_row_table(const Graph& graph);

/// The rows of a table that a shard has, the first and the last perhaps in part. A push to the
/// shard may leave rows out. It is then
///     [the shard's floats without these rows, as they travel][a bit for each row: it is there]
/// with the bits in 32-bit words, the first row in the lowest bit of the first word, and shorter
/// than a push of all floats, by which receivers tell them apart.
class ShardRows {
public:
    /// None.
    ShardRows() = default;
    ShardRows(std::optional<RowTable> table, const ShardRange& shard);
    /// Those of another shard.
    [[nodiscard]] ShardRows in(const ShardRange& shard) const { return {table_, shard}; }

    [[nodiscard]] std::int64_t first() const noexcept { return first_; }  ///< number in the table
    [[nodiscard]] std::int64_t end() const noexcept { return end_; }
    [[nodiscard]] std::int64_t words() const noexcept { return (end_ - first_ + 31) / 32; }
    /// The floats of a row of the table that lie in the shard, [begin, end) of the parameters.
    [[nodiscard]] std::pair<std::int64_t, std::int64_t> floats_of(std::int64_t row) const noexcept;

    /// Floats of a push without the rows whose bits are 0. @param bits [words()]
    [[nodiscard]] std::int64_t kept(std::span<const std::uint32_t> bits) const noexcept;
    /// Puts rows of zeros in their places. @param memory [floats of the shard + words()]: a push
    /// without them, as floats, at the end. Afterwards it begins with all floats of the shard.
    void expand(std::span<float> memory) const;

private:
    std::optional<RowTable> table_;
    ShardRange shard_;
    std::int64_t first_ = 0;
    std::int64_t end_ = 0;
};

/// Which floats a worker's push has, and where they lie in the memory that it leaves from: each
/// shard's part begins where it would if all floats were there.
class PushForm {
public:
    /// Floats of the parameters, or of the state behind them, that follow each other.
    struct Run {
        std::int64_t begin = 0;
        std::int64_t end = 0;
        std::int64_t to = 0;  ///< number of the first one in the memory
    };

    /// All floats.
    PushForm(std::vector<ShardRange> shards, Wire wire);
    /// Without the rows of a table that the mini-batch does not have, in those shards where that is
    /// shorter. @param tokens  of the mini-batch
    PushForm(std::vector<ShardRange> shards, Wire wire, const RowTable& table,
             std::span<const std::int32_t> tokens);

    /// Of a shard's part.
    [[nodiscard]] std::uint64_t bytes(std::size_t shard) const;
    /// Of what follows float `low` of the parameters in it.
    [[nodiscard]] std::uint64_t bytes_from(std::size_t shard, std::int64_t low) const;
    /// Ascending. [begin, end) is a range of floats: runs that have some of it, cut to it.
    [[nodiscard]] std::vector<Run> runs(std::int64_t begin, std::int64_t end) const;
    /// Writes the bits of rows behind the floats of each part.
    void put_bits(std::byte* memory) const;

private:
    struct Part {
        std::int64_t kept = 0;            ///< floats
        std::vector<std::uint32_t> bits;  ///< of rows; empty: all floats are there
    };
    void add_part(const ShardRange& shard, const ShardRows& rows, const std::vector<bool>& present);
    [[nodiscard]] std::uint64_t bytes_of(std::int64_t floats) const noexcept {
        return static_cast<std::uint64_t>(floats) * wire_bytes(wire_);
    }

    std::vector<ShardRange> shards_;
    Wire wire_;
    std::vector<Part> parts_;  ///< by shard
    std::vector<Run> runs_;
};

}  // namespace cohort
