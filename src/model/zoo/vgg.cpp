// VGG (Simonyan & Zisserman 2015) with batch norm and one linear layer, as is usual for small
// images. VGG-16: configuration D.
#include <algorithm>

#include "model/zoo/families.hpp"

namespace cohort::zoo {

Graph vgg16(const Shape& input, std::int64_t classes) {
    require_image("vgg16", input, 16);
    constexpr std::int64_t kPool = 0;
    constexpr std::int64_t kPlan[] = {64,    64,  kPool, 128, 128,   kPool, 256, 256, 256,
                                      kPool, 512, 512,   512, kPool, 512,   512, 512, kPool};
    GraphBuilder net("vgg16", input);
    Value x = net.input();
    for (const std::int64_t channels : kPlan) {
        if (channels != kPool) {
            x = net.relu(
                net.batch_norm(net.conv(x, {.channels = channels, .kernel = 3, .padding = 1})));
        } else if (std::min(net.shape(x)[1], net.shape(x)[2]) >= 2) {
            x = net.max_pool(x, {.kernel = 2, .stride = 2});  // images under 32 run out of pixels
        }
    }
    return net.finish(net.linear(net.flatten(x), {.features = classes}));
}

}  // namespace cohort::zoo
