#include <algorithm>
#include <cmath>

#include "sched/predict/lstm_model.hpp"

namespace cohort {
namespace {

constexpr double kUsualOwn = 0.2;        ///< of sorted own times
constexpr double kUsualRate = 0.9;       ///< of sorted rates
constexpr double kLeastRate = 1.0 / 64;  ///< least rate, relative to the usual one
constexpr double kMostRate = 2;

}  // namespace

LstmFeatures LstmScale::add(const ResourceUse& use, double own_s) {
    const auto log_rate = [](NewestQuantile& rates, double bytes_s) {
        if (bytes_s > 0) {
            rates.add(static_cast<float>(bytes_s));
        }
        const double usual = rates.at(kUsualRate);
        const double share = bytes_s > 0 && usual > 0 ? bytes_s / usual : 1;
        return static_cast<float>(std::log(std::clamp(share, kLeastRate, kMostRate)));
    };
    own_.add(static_cast<float>(own_s));
    return {static_cast<float>(use.cpu_share), log_rate(rx_, use.rx_bytes_s),
            log_rate(tx_, use.tx_bytes_s),
            static_cast<float>(std::log(own_s / static_cast<double>(own_.at(kUsualOwn))))};
}

double LstmScale::own_s(float log_time) const {
    return std::exp(static_cast<double>(log_time)) * static_cast<double>(own_.at(kUsualOwn));
}

PredictorSeries predictor_series(std::span<const IterationRecord> records, std::int64_t batch) {
    PredictorSeries series;
    LstmScale scale;
    for (const IterationRecord& record : records) {
        if (const double own_s = record.own_s(batch); own_s > 0) {
            series.features.push_back(scale.add(record.use, own_s));
        }
    }
    return series;
}

}  // namespace cohort
