#include "jobs/cli/resume_command.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace cohort {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

TEST(ResumeCommand, ResumesInPlaceOfOverwriting) {
    EXPECT_THAT(resuming({"mpirun", "-n", "4", "cohort", "train", "--overwrite", "--out", "a"}),
                ElementsAre("mpirun", "-n", "4", "cohort", "train", "--out", "a", "--resume"));
    EXPECT_THAT(resuming({"cohort", "train", "--resume", "--overwrite=true"}),
                ElementsAre("cohort", "train", "--resume"));
}

TEST(ResumeCommand, StartsWithTheLauncher) {
    const std::vector<std::string> own{"./cohort", "train"};
    EXPECT_THAT(
        starting({"/usr/bin/mpirun", "-n", "2", "--bind-to", "none", "./cohort", "train"}, own, 2),
        ElementsAre("/usr/bin/mpirun", "-n", "2", "--bind-to", "none", "./cohort", "train"));
    EXPECT_THAT(starting({"slurmstepd: [4711.0]"}, own, 2),
                ElementsAre("srun", "-n", "2", "./cohort", "train"));
    EXPECT_THAT(starting({"orted", "-mca", "ess", "env"}, own, 2),
                ElementsAre("mpirun", "-n", "2", "./cohort", "train"));
    EXPECT_THAT(starting({}, own, 1), ElementsAre("./cohort", "train"));
}

TEST(ResumeCommand, IsThatOfThisProcess) {
    EXPECT_THAT(resume_command(1), HasSubstr("jobs_resume_command_test"));
    EXPECT_THAT(resume_command(3), testing::StartsWith("mpirun -n 3 "));
}

}  // namespace
}  // namespace cohort
