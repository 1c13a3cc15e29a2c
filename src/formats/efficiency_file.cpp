#include "formats/efficiency_file.hpp"

#include "data/dataset/text_file.hpp"
#include "formats/shipped.hpp"
#include "formats/weights_file.hpp"

namespace cohort {
namespace {

EfficiencyCoefficients parse_efficiency(std::string_view text, const std::string& file) {
    EfficiencyCoefficients coefficients = parse_weights(text, file, "cohort efficiency train");
    (void)EfficiencyModel(coefficients);  // refuses what it does not know
    return coefficients;
}

}  // namespace

std::shared_ptr<const EfficiencyCoefficients> load_efficiency(const std::string& file) {
    return std::make_shared<const EfficiencyCoefficients>(
        file.empty()
            ? parse_efficiency(shipped_efficiencies().front().bytes, "the shipped efficiency model")
            : parse_efficiency(read_text_file(file), file));
}

}  // namespace cohort
