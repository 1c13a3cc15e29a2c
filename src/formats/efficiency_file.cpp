#include "formats/efficiency_file.hpp"

#include "data/dataset/text_file.hpp"
#include "formats/shipped.hpp"
#include "formats/weights_file.hpp"

namespace cohort {
namespace {

EfficiencyCoefficients parse(std::string_view text, const std::string& file) {
    EfficiencyCoefficients coefficients = parse_weights(text, file, "cohort efficiency train");
    (void)EfficiencyModel(coefficients);  // refuses what it does not know
    return coefficients;
}

}  // namespace

std::shared_ptr<const EfficiencyCoefficients> load_efficiency(const std::string& file) {
    return std::make_shared<const EfficiencyCoefficients>(
        file.empty() ? parse(shipped_efficiencies().front().bytes, "the shipped efficiency model")
                     : parse(read_text_file(file), file));
}

}  // namespace cohort
