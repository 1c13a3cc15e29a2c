// The table by which a GPU tells what to do with a float of an update.
#include <gtest/gtest.h>

#include "layers/optim/update_units.hpp"
#include "layers/optim/updates.hpp"
#include "support/optim/optimizer_run.hpp"

namespace cohort {
namespace {

using test::mixed_layout;

TEST(UpdateUnits, SayOfEveryFloatWhatTheRunsSay) {
    const FlatLayout layout = mixed_layout();
    for (std::int64_t begin = 0; begin < layout.total(); begin += 5) {
        for (std::int64_t end = begin; end <= layout.total(); end += 7) {
            const std::vector<std::uint8_t> units = update_units(layout, begin, end);
            std::vector<int> wanted(static_cast<std::size_t>(end - begin), 0);
            for (const UpdateRun& run : update_runs(layout, begin, end)) {
                std::fill(wanted.begin() + run.begin, wanted.begin() + run.end, run.decay ? 2 : 1);
            }
            for (std::int64_t i = 0; i < end - begin; ++i) {
                const std::int64_t place = begin % FlatLayout::kAlignment + i;
                const std::uint8_t unit =
                    units.at(static_cast<std::size_t>(place / FlatLayout::kAlignment));
                const bool used = place % FlatLayout::kAlignment < unit_used(unit);
                const int found = used ? (unit_decays(unit) ? 2 : 1) : 0;
                ASSERT_EQ(found, wanted[static_cast<std::size_t>(i)])
                    << "float " << i << " of [" << begin << ", " << end << ")";
            }
        }
    }
}

}  // namespace
}  // namespace cohort
