// Who rides with whom, and what is ordered when other members are wanted.
#include "sched/plan/ring_rules.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

constexpr RingRole kMember = RingRole::kMember;
constexpr RingRole kRider = RingRole::kRider;
constexpr RingRole kHold = RingRole::kHold;

/// Members 0, 1, 2 on nodes 0, 0, 1; the riders 3 and 4 on nodes 1 and 0.
std::vector<RingSeat> five() {
    return {{.role = kMember, .node = 0},
            {.role = kMember, .node = 0},
            {.role = kMember, .node = 1},
            {.role = kRider, .parent = 0, .node = 1},
            {.role = kRider, .parent = 1, .node = 0}};
}

TEST(ChooseParent, TakesOneWithFewestRidersThenItsNode) {
    std::vector<RingSeat> seats = five();
    EXPECT_EQ(choose_parent(3, {0, 1, 2}, seats), 2) << "no riders, same node";
    EXPECT_EQ(choose_parent(4, {0, 1, 2}, seats), 1) << "its own ride does not count";
    EXPECT_EQ(choose_parent(4, {0, 2}, seats), 2) << "a rider counts more than a node";
    EXPECT_EQ(choose_parent(4, {2, 0}, seats), 2);
    seats[3].live = false;
    EXPECT_EQ(choose_parent(4, {2, 0}, seats), 0) << "the lost do not count";
    seats[3] = {.role = kHold, .parent = 0, .node = 1};
    EXPECT_EQ(choose_parent(4, {2, 0}, seats), 0) << "who is about to be a member does not either";
    seats = five();
    seats[2].node = 0;
    seats[3].parent = 4;
    EXPECT_EQ(choose_parent(4, {2, 1, 0}, seats), 2) << "of equal ones the first";
}

TEST(FenceRoles, HoldWhoEntersAndGiveOrphansAnotherParent) {
    EXPECT_THAT(fence_roles({0, 1, 2}, {0, 1, 2}, five()), IsEmpty());
    // 3 takes the place of 2, which has no rider.
    EXPECT_THAT(fence_roles({0, 1, 2}, {0, 1, 3}, five()), ElementsAre(FenceRole{3, kHold, 0}));
    // 0 and 1 leave: 2 stays alone.
    EXPECT_THAT(fence_roles({0, 1, 2}, {2}, five()),
                ElementsAre(FenceRole{3, kRider, 2}, FenceRole{4, kRider, 2}));
    // Nobody stays: who rides keeps its parent until the fence.
    EXPECT_THAT(fence_roles({0, 1, 2}, {3}, five()), ElementsAre(FenceRole{3, kHold, 0}));
    // What the first orphan is given counts for the second.
    std::vector<RingSeat> both = five();
    both[4].parent = 0;
    both[2].node = both[3].node = 0;
    EXPECT_THAT(fence_roles({0, 1, 2}, {1, 2}, both),
                ElementsAre(FenceRole{3, kRider, 1}, FenceRole{4, kRider, 2}));
}

TEST(FenceRoles, OfAnotherPlanTakeBackWhatIsNotWantedAnyMore) {
    std::vector<RingSeat> seats = five();
    seats[3].role = kHold;
    seats[4].live = false;
    EXPECT_THAT(fence_roles({0, 1, 2}, {1, 2}, seats), ElementsAre(FenceRole{3, kRider, 2}));
    EXPECT_THAT(fence_roles({0, 1, 2}, {0, 1, 4}, seats), ElementsAre(FenceRole{3, kRider, 0}));
    EXPECT_THAT(fence_roles({0, 1, 2}, {0, 1, 3}, seats), IsEmpty());
}

TEST(ChangeMembers, NamesWhoEntersAndLeavesAndWhoGives) {
    const MemberChange some = change_members({0, 1, 2}, {4, 2, 3, 1});
    EXPECT_EQ(some.giver, 2) << "the first of the new ones that stays";
    EXPECT_THAT(some.entering, ElementsAre(4, 3));
    EXPECT_THAT(some.leaving, ElementsAre(0));
    const MemberChange all = change_members({1, 0}, {2});
    EXPECT_EQ(all.giver, 1);
    EXPECT_THAT(all.entering, ElementsAre(2));
    EXPECT_THAT(all.leaving, ElementsAre(1, 0));
}

}  // namespace
}  // namespace cohort
