// A network card that ranks share by weights.
#include "comm/transfer/card_share.hpp"

#include <gtest/gtest.h>

#include <array>

#include "comm/transfer/pacer.hpp"

namespace cohort {
namespace {

using namespace std::chrono_literals;

constexpr double kCard = 1e6;
constexpr auto kNow = std::chrono::steady_clock::time_point(100s);

TEST(CardShare, WithoutACardThereIsNoLimit) {
    const CardShare none;
    none.set_weight(2);
    none.works(CardWay::kOut, 1e6, kNow);
    EXPECT_EQ(none.rate(CardWay::kOut, kNow), 0);
}

TEST(CardShare, RanksAtWorkShareItByTheirWeights) {
    std::array<CardUser, 3> users;
    const std::array cards{CardShare(users, 0, kCard), CardShare(users, 1, kCard),
                           CardShare(users, 2, kCard)};
    cards[0].set_weight(4);
    EXPECT_EQ(cards[0].rate(CardWay::kOut, kNow), 0) << "nobody else has ever sent";
    cards[1].works(CardWay::kOut, 1e5, kNow);  // 0.1 s
    EXPECT_DOUBLE_EQ(cards[0].rate(CardWay::kOut, kNow), kCard * 4 / 5);
    cards[0].works(CardWay::kOut, 1e5, kNow);
    cards[2].works(CardWay::kOut, 0, kNow);  // waits
    EXPECT_DOUBLE_EQ(cards[1].rate(CardWay::kOut, kNow), kCard / 6);
    EXPECT_DOUBLE_EQ(cards[1].rate(CardWay::kOut, kNow + 20ms), kCard / 5) << "2 is done";
    EXPECT_DOUBLE_EQ(cards[1].rate(CardWay::kOut, kNow + 200ms), kCard)
        << "0 is done, and finds no queue when it comes back";
    EXPECT_EQ(cards[1].rate(CardWay::kIn, kNow), 0) << "each direction is a card of its own";
    EXPECT_EQ(cards[1].rate(CardWay::kOut, kNow + 20s), 0) << "0 is forgotten";
}

TEST(CardShare, WhatIsBegunTakesItsTimeOneAfterTheOther) {
    std::array<CardUser, 2> users;
    const CardShare first(users, 0, kCard);
    const CardShare second(users, 1, kCard);
    second.set_weight(2);
    for (int chunk = 0; chunk < 5; ++chunk) {
        second.works(CardWay::kOut, 1e5, kNow);
    }
    EXPECT_DOUBLE_EQ(first.rate(CardWay::kOut, kNow + 450ms), kCard / 3);
    EXPECT_DOUBLE_EQ(first.rate(CardWay::kOut, kNow + 550ms), kCard);
}

TEST(CardShare, ACardThatIsFasterThanWasSaidLeavesNoBacklog) {
    std::array<CardUser, 2> users;
    const CardShare first(users, 0, kCard);
    const CardShare second(users, 1, kCard);
    second.set_weight(2);
    for (int chunk = 0; chunk < 1000; ++chunk) {
        second.works(CardWay::kOut, 1e5, kNow);  // 100 s, as was said
    }
    EXPECT_DOUBLE_EQ(first.rate(CardWay::kOut, kNow + 500ms), kCard / 3);
    EXPECT_DOUBLE_EQ(first.rate(CardWay::kOut, kNow + 3s), kCard);
}

TEST(CardShare, EqualWeightsAreLeftToTheCard) {
    std::array<CardUser, 2> users;
    const CardShare first(users, 0, kCard);
    const CardShare second(users, 1, kCard);
    second.works(CardWay::kIn, 1e6, kNow);
    EXPECT_EQ(first.rate(CardWay::kIn, kNow), 0);
    first.set_weight(2);
    EXPECT_DOUBLE_EQ(first.rate(CardWay::kIn, kNow), kCard * 2 / 3);
    first.set_weight(1);
    EXPECT_EQ(first.rate(CardWay::kIn, kNow), 0) << "the grant has been returned";
}

/// What a rank has begun at a small share does not hold it up once the card is free.
TEST(CardShare, ADebtIsPaidAtTheRateOfTheMoment) {
    std::array<CardUser, 2> users;
    const CardShare other(users, 0, kCard);
    Pacer pacer;
    pacer.share(CardShare(users, 1, kCard));
    other.set_weight(63);
    const auto begin = std::chrono::steady_clock::now();
    other.works(CardWay::kOut, 0.05 * kCard, begin);  // for 0.05 s
    ASSERT_TRUE(pacer.may_send(100000, true));        // 6.4 s at its share, 0.1 s alone
    EXPECT_FALSE(pacer.may_send(1, true));
    while (!pacer.may_send(1, true)) {
    }
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    EXPECT_GT(passed.count(), 0.05);
    EXPECT_LT(passed.count(), 6.4) << "the other one has long been done";
}

/// Two ranks that always have something to send.
TEST(CardShare, PacedRanksSendInProportionToTheirWeights) {
    std::array<CardUser, 2> users;
    std::array<Pacer, 2> pacers;
    constexpr double kFast = 1e8;
    pacers[0].share(CardShare(users, 0, kFast));
    pacers[1].share(CardShare(users, 1, kFast));
    users[0].weight = 3;
    std::array<double, 2> sent{};
    constexpr double kChunk = 10000;
    const auto begin = std::chrono::steady_clock::now();
    while (sent[0] + sent[1] < 0.3 * kFast) {
        for (std::size_t rank = 0; rank < sent.size(); ++rank) {
            sent[rank] +=
                pacers[rank].may_send(static_cast<std::uint64_t>(kChunk), true) ? kChunk : 0;
        }
    }
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - begin;
    EXPECT_NEAR(sent[0] / sent[1], 3, 0.5);
    EXPECT_GT(passed.count(), 0.25) << "both together keep to the card's rate";
    EXPECT_TRUE(pacers[1].may_send(static_cast<std::uint64_t>(kChunk)))
        << "within the host there is no limit";
}

}  // namespace
}  // namespace cohort
