// Every mode of rings runs to its end under every kind of trouble, learns what it should, and does
// it again the same way.
#include <algorithm>
#include <numeric>

#include "cohort/data/hdf5_thread.hpp"
#include "cohort/sched/drop_record.hpp"
#include "support/data/tiny_dataset.hpp"
#include "support/sim/ring_simulation.hpp"

namespace cohort {
namespace {

/// One of each name of mode_names(Architecture::kRing), and changes between them.
const std::vector<std::string> kModes{"ring",     "ring:6",     "ring:1",   "ssgd",
                                      "localsgd", "localsgd:3", "hier:3:2", "lb-bsp",
                                      "star-h",   "star-ml",    "adaptive"};
const std::vector<std::string> kSchedules{
    "0:ring,2000:ring:5,4000:localsgd:2,8000:ring:6,10000:lb-bsp,12000:hier:2:2,15000:ring:7",
    "0:ring:2,1000:ring:7,1100:ring:3,1200:ring,1300:ring:1,5000:localsgd:4"};
const std::vector<std::string> kPatterns{"healthy",   "persistent:2", "delay",     "half",
                                         "transient", "onoff",        "bandwidth", "storm"};

using RingModesTest = RingSimulation;

TEST_F(RingModesTest, NoNameIsForgotten) {
    for (const std::string& spelling : mode_names(Architecture::kRing)) {
        const std::string name = spelling.substr(0, spelling.find_first_of(":["));
        EXPECT_TRUE(std::any_of(kModes.begin(), kModes.end(), [&](const std::string& mode) {
            return mode.substr(0, mode.find(':')) == name;
        })) << name;
    }
}

TEST_F(RingModesTest, AllEndWithAccountsThatAddUp) {
    for (const std::string& pattern : kPatterns) {
        for (std::size_t i = 0; i < kModes.size() + kSchedules.size(); ++i) {
            SimulateOptions all = options({}, 8, 250);
            all.pattern = pattern;
            all.samples += 7;
            (i < kModes.size() ? all.mode : all.mode_schedule) =
                i < kModes.size() ? kModes[i] : kSchedules[i - kModes.size()];
            SCOPED_TRACE(command_text(all));
            const SimulationResult first = run(all);
            EXPECT_EQ(first.stop_reason, "budget");
            expect_accounts(first, all.samples);
            const SimulationResult second = run(all);
            EXPECT_EQ(first.digest, second.digest);
            EXPECT_EQ(first.events, second.events);
        }
    }
}

TEST_F(RingModesTest, AScheduleIsFollowed) {
    SimulateOptions all = options({}, 8, 250);
    all.mode_schedule = kSchedules[0];
    const SimulationResult result = run(all);
    std::vector<std::string> modes;
    for (const SwitchReport& change : result.switches) {
        if (!change.same_mode()) {
            modes.push_back(change.to);
            EXPECT_TRUE(change.in_force_s) << change.to;
        }
    }
    EXPECT_EQ(modes, (std::vector<std::string>{"ring:5", "localsgd:2", "ring:6", "lb-bsp (ssgd)",
                                               "hier:2:2", "ring:7"}));
}

/// With real gradients.
class RingLearningTest : public RingSimulation {
protected:
    SimulateOptions learning(const std::string& mode) {
        SimulateOptions options = RingSimulation::options({}, 4, 0);
        options.data = data_;
        options.model = "softmax";
        options.mode = mode;
        options.no_train = false;
        options.samples = 40 * 4 * 10;
        options.eval_every_samples = 400;
        options.lr = 0.02;
        return options;
    }

    void SetUp() override {
        Hdf5Thread thread;
        write_tiny_dataset(data_, 640, 200, thread);
    }

    std::string data_ = folder_.file("data.h5");
};

TEST_F(RingLearningTest, ARingLearnsWhatServersLearn) {
    for (const char* mode : {"ssgd", "localsgd:2", "hier:2:2"}) {
        SimulateOptions ring = learning(mode);
        SimulateOptions servers = ring;
        servers.arch = Architecture::kServers;
        const SimulationResult one = run(ring);
        const SimulationResult other = run(servers);
        ASSERT_EQ(one.evaluations.size(), other.evaluations.size()) << mode;
        EXPECT_LT(one.loss, one.evaluations.front().loss) << "it learns";
        for (std::size_t i = 0; i < one.evaluations.size(); ++i) {
            EXPECT_NEAR(one.evaluations[i].loss, other.evaluations[i].loss,
                        1e-5 * other.evaluations[i].loss)
                << mode << ' ' << i;
        }
    }
}

TEST_F(RingLearningTest, ThreadsChangeNothing) {
    for (const char* mode : {"ring", "ring:2", "localsgd:3", "hier:2:2", "lb-bsp"}) {
        SimulateOptions one = learning(mode);
        one.pattern = "persistent:3";
        one.threads = 1;
        SimulateOptions two = one;
        two.threads = 2;
        const SimulationResult result = run(one);
        expect_accounts(result, one.samples);
        EXPECT_EQ(result.digest, run(two).digest) << mode;
        EXPECT_GT(result.accuracy, 0.3) << mode;
    }
}

TEST_F(RingLearningTest, HalfOfARateIsThatHalf) {
    for (const std::string mode : {"ring", "ring:2", "localsgd:3"}) {
        SimulateOptions options = learning(mode + "@0.5");
        options.pattern = "persistent:3";
        const SimulationResult scaled = run(options);
        options.mode = mode;
        options.lr /= 2;
        EXPECT_EQ(run(options).digest, scaled.digest) << mode;
    }
}

TEST_F(RingLearningTest, NumbersThatAreNotFiniteEndIt) {
    for (const char* mode : {"ring", "ring:2"}) {
        SimulateOptions wild = learning(mode);
        wild.lr = 1e39;
        const SimulationResult result = run(wild);
        EXPECT_EQ(result.stop_reason, "diverged") << mode;
        EXPECT_GT(result.accounts.returned_for(ReturnReason::kNonFinite), 0);
        EXPECT_EQ(result.accounts.leased,
                  result.accounts.applied + std::accumulate(result.accounts.returned.begin(),
                                                            result.accounts.returned.end(),
                                                            std::int64_t{0}));
    }
}

/// The first update makes all parameters infinite.
TEST_F(RingLearningTest, ARoundIsDroppedOnceWhateverItsMembers) {
    SimulateOptions wild = learning("ring");
    wild.lr = 1e39;
    const SimulationResult result = run(wild);
    EXPECT_EQ(result.updates, 1);
    EXPECT_EQ(result.accounts.returned_for(ReturnReason::kNonFinite) +
                  result.accounts.returned_for(ReturnReason::kVoidRound),
              DropRecord::kMostInARow * wild.workers * wild.batch);
}

TEST_F(RingLearningTest, ATargetEndsItWithItsTime) {
    SimulateOptions aims = learning("ring");
    aims.target_accuracy = 0.3;
    const SimulationResult result = run(aims);
    EXPECT_EQ(result.stop_reason, "target");
    ASSERT_TRUE(result.tta_virtual_s && result.samples_to_target);
    EXPECT_EQ(*result.tta_virtual_s, result.virtual_s);
    EXPECT_EQ(*result.samples_to_target, result.samples_applied);
    EXPECT_GE(result.accuracy, 0.3);
}

}  // namespace
}  // namespace cohort
