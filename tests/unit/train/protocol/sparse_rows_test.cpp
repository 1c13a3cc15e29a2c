// Pushes of gradients that have some rows of a table: what leaves, and what an update is given.
#include "train/protocol/sparse_rows.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>

#include "cohort/core/error.hpp"
#include "cohort/model/zoo.hpp"
#include "core/bf16.hpp"
#include "train/server/server_staging.hpp"
#include "train/worker/servers/push_buffers.hpp"

namespace cohort {
namespace {

constexpr PushId kPush{.worker = 0, .incarnation = 0, .sequence = 1};

Graph words(std::string_view name) {
    return make_model(name, {.shape = Shape{5}, .classes = 301, .tokens = true});
}

/// A gradient of the parameters with their state, and the shards that it is sent to.
struct Case {
    std::vector<ShardRange> shards;
    RowTable table;
    std::vector<std::int32_t> tokens;
    std::vector<float> values;  ///< all floats

    [[nodiscard]] bool has(std::int64_t row) const {
        return std::ranges::count(tokens, static_cast<std::int32_t>(row)) > 0;
    }
};

/// Some floats before the table, behind it and of state, cut anywhere.
Case draw_case(std::mt19937& random) {
    const auto draw = [&](int from, int to) {
        return std::uniform_int_distribution(from, to)(random);
    };
    Case made;
    made.table = {.begin = 16 * draw(0, 3), .rows = draw(1, 200), .width = draw(1, 20)};
    const std::int64_t end = (made.table.end() + 16 * draw(0, 40) + 15) / 16 * 16;
    std::vector<std::int64_t> cuts{0, end};
    for (int i = draw(0, 3); i > 0; --i) {
        cuts.push_back(16 * draw(0, static_cast<int>(end / 16)));
    }
    std::ranges::sort(cuts);
    const std::int64_t state = draw(0, 2) * 8;
    for (std::size_t i = 1; i < cuts.size(); ++i) {
        made.shards.push_back({.part = static_cast<std::int32_t>(i - 1),
                               .begin = cuts[i - 1],
                               .end = cuts[i],
                               .state = i + 1 == cuts.size() ? state : 0});
    }
    for (int i = draw(0, 30); i > 0; --i) {
        made.tokens.push_back(draw(0, static_cast<int>(made.table.rows) - 1));
    }
    std::normal_distribution<float> normal;
    for (std::int64_t i = 0; i < end + state; ++i) {
        const std::int64_t row = (i - made.table.begin) / made.table.width;
        const bool inside = i >= made.table.begin && i < made.table.end();
        made.values.push_back(inside && !made.has(row) ? 0.0F : normal(random));
    }
    return made;
}

/// Writes pieces of the values from the end on, as backward does, and takes of each part what may
/// leave by then. @return the parts as they left
std::vector<std::vector<std::byte>> leave(const Case& one, const PushForm& form, Wire wire,
                                          PushWriter to, std::byte* memory, std::mt19937& random) {
    std::vector<std::vector<std::byte>> parts;
    for (std::size_t shard = 0; shard < one.shards.size(); ++shard) {
        parts.emplace_back(form.bytes(shard));
    }
    form.put_bits(memory);
    const std::int64_t parameters = one.shards.back().end;
    to.put_state(std::span(one.values).subspan(static_cast<std::size_t>(parameters)));
    for (std::int64_t end = parameters; end > 0;) {
        const std::int64_t begin =
            end - std::uniform_int_distribution<std::int64_t>(1, end)(random);
        to.put(begin, std::span(one.values)
                          .subspan(static_cast<std::size_t>(begin),
                                   static_cast<std::size_t>(end - begin)));
        for (std::size_t shard = 0; shard < parts.size(); ++shard) {
            if (begin >= one.shards[shard].end) {
                continue;
            }
            const std::byte* part =
                memory + one.shards[shard].begin * static_cast<std::int64_t>(wire_bytes(wire));
            const std::uint64_t done = form.bytes_from(shard, begin);
            const std::uint64_t at = parts[shard].size() - done;
            std::memcpy(parts[shard].data() + at, part + at, done);
        }
        end = begin;
    }
    return parts;
}

std::vector<float> received(PushStaging& staging, std::span<const std::byte> part,
                            std::int64_t floats) {
    const Message announcement{.body = encode(PushHeader{.push = kPush})};
    const std::span<std::byte> to = staging.accept(announcement, part.size());
    EXPECT_EQ(to.size(), part.size());
    std::ranges::copy(part, to.begin());
    EXPECT_TRUE(staging.arrived(kPush));
    const auto push = staging.take(kPush);
    return {push.get(), push.get() + floats};
}

std::vector<float> as_received(std::span<const float> values, Wire wire) {
    std::vector<float> to(values.begin(), values.end());
    if (wire == Wire::kBf16) {
        std::vector<std::uint16_t> shorts(values.size());
        narrow_to_bf16(values, shorts.data());
        widen_bf16(shorts.data(), to);
    }
    return to;
}

class SparsePush : public testing::TestWithParam<Wire> {
protected:
    std::unique_ptr<Device> device_ = make_cpu_device(1);
};
INSTANTIATE_TEST_SUITE_P(Wires, SparsePush, testing::Values(Wire::kF32, Wire::kBf16));

TEST_P(SparsePush, AnUpdateIsGivenTheWholeGradient) {
    const Wire wire = GetParam();
    int shorter = 0;
    for (unsigned seed = 1; seed <= 300; ++seed) {
        std::mt19937 random(seed);
        const Case one = draw_case(random);
        const PushForm form(one.shards, wire, one.table, one.tokens);
        std::vector<float> memory(one.values.size());
        auto* const bytes = reinterpret_cast<std::byte*>(memory.data());
        const PushWriter writer = wire == Wire::kF32
                                      ? PushWriter(std::span(memory))
                                      : PushWriter(reinterpret_cast<std::uint16_t*>(memory.data()),
                                                   memory.size(), nullptr);
        const auto parts = leave(one, form, wire, writer.with(form), bytes, random);
        for (std::size_t shard = 0; shard < parts.size(); ++shard) {
            const ShardRange& range = one.shards[shard];
            const auto all = static_cast<std::uint64_t>(range.floats()) * wire_bytes(wire);
            ASSERT_LE(parts[shard].size(), all);
            shorter += parts[shard].size() < all ? 1 : 0;
            PushStaging staging(*device_, range.floats(), wire, false, ShardRows(one.table, range));
            const auto want = as_received(std::span(one.values)
                                              .subspan(static_cast<std::size_t>(range.begin),
                                                       static_cast<std::size_t>(range.floats())),
                                          wire);
            ASSERT_EQ(received(staging, parts[shard], range.floats()), want)
                << "seed " << seed << ", shard " << shard;
        }
    }
    EXPECT_GT(shorter, 200);
}

TEST_P(SparsePush, ItsBytesAreThoseOfItsRowsAndABitForEach) {
    const Wire wire = GetParam();
    const RowTable table{.begin = 32, .rows = 1000, .width = 48};
    const std::vector<ShardRange> shards{{.begin = 0, .end = table.end() + 160, .state = 8}};
    const std::vector<std::int32_t> tokens{7, 999, 7, 0, 1000, -1, 1 << 30};  // some of no row
    const PushForm form(shards, wire, table, tokens);
    const std::uint64_t bits = 32 * sizeof(std::uint32_t);
    EXPECT_EQ(form.bytes(0), (32 + 3 * 48 + 160 + 8) * wire_bytes(wire) + bits);
    EXPECT_EQ(form.bytes_from(0, table.end()), (160 + 8) * wire_bytes(wire) + bits);
    EXPECT_EQ(form.bytes_from(0, 32 + 48), (2 * 48 + 160 + 8) * wire_bytes(wire) + bits);
}

/// Of the gradient of a row that a push does not have nothing is lost.
TEST(SparsePush, WhatIsKeptForRowsThatAreNotThereStays) {
    const RowTable table{.begin = 0, .rows = 64, .width = 16};
    const std::vector<ShardRange> shards{{.begin = 0, .end = table.end()}};
    const PushForm form(shards, Wire::kBf16, table, std::vector<std::int32_t>{3});
    const auto floats = static_cast<std::size_t>(table.end());
    ErrorFeedback::Push rest{.before = std::vector<float>(floats, 0.25F),
                             .after = std::vector<float>(floats, 9.0F)};
    std::vector<std::uint16_t> memory(floats);
    const PushWriter writer(memory.data(), floats, &rest);
    std::vector<float> values(floats);
    values[3 * 16] = 1.0F;
    writer.with(form).put(0, values);
    for (std::size_t i = 0; i < floats; ++i) {
        EXPECT_EQ(rest.after[i], i / 16 == 3 ? 0.0F : 0.25F);
    }
    std::vector<float> row(16);
    widen_bf16(memory.data(), row);
    EXPECT_EQ(row[0], 1.25F);
    EXPECT_EQ(row[1], 0.25F);
}

TEST_P(SparsePush, BitsThatDoNotFitTheBytesAreRefused) {
    const Wire wire = GetParam();
    const ShardRange range{.begin = 0, .end = 64 * 16};
    const ShardRows rows(RowTable{.begin = 0, .rows = 64, .width = 16}, range);
    for (const std::size_t bytes : {std::size_t{4}, std::size_t{8}, 8 + 32 * wire_bytes(wire)}) {
        PushStaging staging(*device_, range.floats(), wire, false, rows);
        const Message announcement{.body = encode(PushHeader{.push = kPush})};
        const std::span<std::byte> to = staging.accept(announcement, bytes);
        std::ranges::fill(to, std::byte{0});
        if (!to.empty()) {
            to.back() = std::byte{0x80};  // one row
        }
        EXPECT_THROW((void)staging.arrived(kPush), PeerError) << bytes;
    }
}

TEST(RowTable, IsThatOfAnEmbeddingWhichNoOtherLayerUses) {
    const Graph lstm = words("lstm");
    const auto table = find_row_table(lstm);
    ASSERT_TRUE(table);
    EXPECT_EQ(table->rows, 301);
    EXPECT_EQ(table->width, 200);
    EXPECT_EQ(table->begin, lstm.parameters().ranges().front().offset);
    EXPECT_TRUE(find_row_table(words("transformer")));
    EXPECT_FALSE(find_row_table(words("gpt:16,1,2"))) << "tied weights";
    EXPECT_FALSE(find_row_table(make_model("lenet", Shape{1, 28, 28}, 10)));
}

}  // namespace
}  // namespace cohort
